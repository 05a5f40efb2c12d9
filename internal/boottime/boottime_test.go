package boottime

import (
	"testing"
	"time"
)

// TestSlept: the clock less the time that the machine slept is the monotonic clock.
func TestSlept(t *testing.T) {
	began, awake := time.Now(), Now()-Slept()
	time.Sleep(10 * time.Millisecond)
	passed := Now() - Slept() - awake
	if most := time.Since(began); passed < 10*time.Millisecond-2*precise || passed > most+2*precise {
		t.Errorf("%v have passed in %v", passed, most)
	}
}
