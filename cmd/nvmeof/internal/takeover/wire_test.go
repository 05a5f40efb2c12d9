package takeover

import "testing"

// TestEnded parses lines as Linux writes them.
func TestEnded(t *testing.T) {
	for stat, want := range map[string]bool{
		"": false,
		"7 (nvmeof) S 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 9 0 3 4":   false,
		"7 (nvmeof) Z 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 1 0 3 4":   true,
		"7 (a) Z b) Z 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 0 0 3 4":   true,
		"7 (a) Z b) S 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 1 0 3 4":   false,
		"7 (nvmeof) Z 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 5 0 3 4":   false, // its other threads are still running
		"7 (nvmeof) Z 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0":           false,
		"7 (nvmeof) X 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 1 0 3 4\n": true,
	} {
		if endedBy([]byte(stat)) != want {
			t.Errorf("%q: ended %v, want %v", stat, !want, want)
		}
	}
}
