package boottime

import (
	"testing"
	"time"
)

// TestSlept: without what the machine has slept the clock is the monotonic one.
func TestSlept(t *testing.T) {
	began, awake := time.Now(), Now()-Slept()
	time.Sleep(10 * time.Millisecond)
	passed := Now() - Slept() - awake
	if most := time.Since(began); passed < 10*time.Millisecond-2*precise || passed > most+2*precise {
		t.Errorf("%v have passed in %v", passed, most)
	}
}
