package processors

import (
	"testing"
	"time"
)

// TestUsageOfOthers checks that processor time of this process does not count as that of others.
func TestUsageOfOthers(t *testing.T) {
	others := Usage{time.Now().Add(-time.Second), machineTime() - time.Second, ownTime()}
	if got := others.Others(); got < 0.9 || got > 1.2 {
		t.Errorf("one second of one second is %v processors, want 1", got)
	}
	self := Usage{time.Now().Add(-time.Second), machineTime() - time.Second, ownTime() - time.Second}
	if got := self.Others(); got > 0.2 {
		t.Errorf("this process counts as %v processors of others", got)
	}
}
