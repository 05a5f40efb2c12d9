package rawudp

import (
	"strings"
	"testing"
	"time"
)

// TestTooLong checks that a size that no datagram can carry is an error that names the measurement.
func TestTooLong(t *testing.T) {
	const tooLong = 1 << 16
	if r, err := RoundTrip(time.Millisecond, tooLong, tooLong); err == nil || !strings.HasPrefix(err.Error(), "raw UDP round trip: ") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Goodput(time.Millisecond, tooLong); err == nil || !strings.HasPrefix(err.Error(), "raw UDP goodput: ") {
		t.Errorf("%v, %v", r, err)
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]float64{5, 1, 3}); got != 3 {
		t.Errorf("%v", got)
	}
}
