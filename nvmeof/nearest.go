package nvmeof

import "strings"

// Nearest returns the name that s was probably meant to be: the one that differs from s in the fewest bytes, or
// else the first one that begins with s. It returns "" if none is close enough.
func Nearest(s string, names []string) string {
	best, at := "", max(2, len(s)/4)+1
	for _, n := range names {
		if d := distance(s, n); d < at {
			best, at = n, d
		}
	}
	for _, n := range names {
		if best == "" && len(s) >= 3 && strings.HasPrefix(n, s) {
			best = n
		}
	}
	return best
}

// distance returns the Levenshtein distance of a and b: how many bytes must be added, removed or replaced to turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
