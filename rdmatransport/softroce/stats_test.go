package softroce

import "testing"

// TestDropsAreCountedOnce: a loss is counted under one reason only.
func TestDropsAreCountedOnce(t *testing.T) {
	s := Stats{SendDropped: 5, UDP: UDPStats{SendLost: 3, SendFull: 2}}
	sum := uint64(0)
	for _, n := range s.Drops() {
		sum += n
	}
	if sum != 5 {
		t.Errorf("%d messages were dropped, and 5 sends failed: %v", sum, s.Drops())
	}
}
