package capsule

import (
	"errors"
	"testing"
)

func TestFeatureData(t *testing.T) {
	b := make([]byte, HostBehaviorSize)
	want := HostBehavior{ACRE: true, LBAFEE: true, CDFE: CDFE2 | CDFE4}
	want.Encode(b)
	if b[0] != 1 || b[1] != 0 || b[2] != 1 || b[4] != 0x14 {
		t.Errorf("host behavior % x", b[:8])
	}
	if got, err := DecodeHostBehavior(b); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, at := range []int{3, 6, 511} {
		want.Encode(b)
		b[at] = 1
		if got, _ := DecodeHostBehavior(b); !got.Unknown {
			t.Errorf("byte %d went unnoticed", at)
		}
	}
	if _, err := DecodeHostBehavior(b[:511]); !errors.Is(err, ErrShort) {
		t.Errorf("511 bytes: %v", err)
	}

	Timestamp{Millis: 0x0123_4567_89ab}.Encode(b)
	if b[0] != 0xab || b[5] != 0x01 || b[6] != 0 || b[7] != 0 {
		t.Errorf("timestamp % x", b[:8])
	}
	b[6] = 1<<1 | 1
	if got, err := DecodeTimestamp(b); err != nil || got != (Timestamp{0x0123_4567_89ab, true, true}) {
		t.Errorf("%+v, %v", got, err)
	}
	b[6] = 0
	if got, _ := DecodeTimestamp(b); got.Set || got.Stopped {
		t.Errorf("%+v", got)
	}
	if _, err := DecodeTimestamp(b[:7]); !errors.Is(err, ErrShort) {
		t.Errorf("7 bytes: %v", err)
	}

	for _, x := range []TemperatureThreshold{{Kelvins: 0x1234, Sensor: AllSensors}, {Kelvins: 300, Sensor: 8, Under: true}} {
		if got := ParseTemperatureThreshold(x.Value()); got != x {
			t.Errorf("%+v, want %+v", got, x)
		}
	}
}
