package softroce

import "testing"

// TestIdentification: a jump of a peer's counter is accepted unless the path is known to corrupt packets.
func TestIdentification(t *testing.T) {
	var f identification
	count := func(from uint16) {
		t.Helper()
		for i := range uint16(2 * idTrust) {
			if !f.plausible(from+i, 0) {
				t.Fatalf("identification %d after %d is refused", from+i, from+i-1)
			}
		}
	}
	count(65500) // wraps
	count(20000) // jumps
	f.corrupt = true
	if f.plausible(60000, 0) {
		t.Error("a stray identification is believed on a path that corrupts")
	}
	count(60001) // the jump was genuine
	if !f.plausible(20000, 1e9) {
		t.Error("refused after a pause, in which the counter may have gone anywhere")
	}
}
