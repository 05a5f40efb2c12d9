package fio

import "fmt"

// scaled formats a number with three or four digits and a prefix or a unit.
func scaled(v, step float64, prefixes []string) string {
	i := 0
	for v >= 10*step && i < len(prefixes)-1 {
		v /= step
		i++
	}
	switch {
	case v >= 100 || i == 0:
		return fmt.Sprintf("%.0f%s", v, prefixes[i])
	case v >= 10:
		return fmt.Sprintf("%.1f%s", v, prefixes[i])
	}
	return fmt.Sprintf("%.2f%s", v, prefixes[i])
}

var (
	decimalPrefixes = []string{"", "k", "M", "G", "T"}
	byteUnits       = []string{"B", "kB", "MB", "GB", "TB"}
	binaryUnits     = []string{"B", "KiB", "MiB", "GiB", "TiB"}
)

// thousands formats a number such as 63.2k.
func thousands(v float64) string { return scaled(v, 1000, decimalPrefixes) }

// speed formats bytes per second such as 247MiB/s (259MB/s).
func speed(v float64) string {
	return fmt.Sprintf("%s/s (%s/s)", scaled(v, 1024, binaryUnits), scaled(v, 1000, byteUnits))
}

func volume(n uint64) string { return scaled(float64(n), 1024, binaryUnits) }
