package wire

import (
	"testing"
	"time"
)

func TestSyndromeKind(t *testing.T) {
	for _, c := range []struct {
		s    Syndrome
		want AETHKind
	}{
		{0x00, AETHAck}, {SyndromeAck, AETHAck}, {0x20, AETHRNR}, {0x3f, AETHRNR}, {0x40, AETHReserved},
		{SyndromeSequence, AETHNAK}, {SyndromeRemoteOperational, AETHNAK}, {0x7f, AETHNAK},
		{0x80, AETHReserved}, {0xff, AETHReserved},
	} {
		if got := c.s.Kind(); got != c.want {
			t.Errorf("%#02x: kind %d, want %d", uint8(c.s), got, c.want)
		}
	}
	if got := SyndromeRNR(14); got != 0x2e || got.RNRDelay() != 1280*time.Microsecond {
		t.Errorf("RNR timer 14 is %#02x, %v", uint8(got), got.RNRDelay())
	}
}

func TestSyndromeNames(t *testing.T) {
	for s, want := range map[Syndrome]string{
		SyndromeAck: "ACK", SyndromeRNR(1): "RNR NAK: 10µs", SyndromeSequence: "NAK: PSN sequence error",
		SyndromeInvalidRequest: "NAK: invalid request", SyndromeRemoteAccess: "NAK: remote access error",
		SyndromeRemoteOperational: "NAK: remote operational error", 0x40: "reserved syndrome 0x40",
	} {
		if s.String() != want {
			t.Errorf("%#02x is %q, want %q", uint8(s), s, want)
		}
	}
}

// IBTA table 45, from its first and last rows and its pattern: from code 2 on,
// each delay is twice the one two codes before.
func TestRNRDelays(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 2: 20 * time.Microsecond,
		3: 30 * time.Microsecond, 15: 1920 * time.Microsecond, 31: 491520 * time.Microsecond,
	} {
		if got := SyndromeRNR(code).RNRDelay(); got != want {
			t.Errorf("code %d: %v, want %v", code, got, want)
		}
	}
	for code := uint8(4); code < 32; code++ {
		if got, want := SyndromeRNR(code).RNRDelay(), 2*SyndromeRNR(code-2).RNRDelay(); got != want {
			t.Errorf("code %d: %v, want %v", code, got, want)
		}
	}
	for code := uint8(1); code < 32; code++ {
		d := rnrDelays[code]
		if RNRTimer(d) != code || RNRTimer(d-1) != code || RNRTimer(d+1) == code {
			t.Errorf("RNRTimer does not find code %d", code)
		}
	}
	if RNRTimer(time.Second) != 0 {
		t.Error("RNRTimer(1s) is not the longest")
	}
}

func TestTimeout(t *testing.T) {
	for n, want := range map[Timeout]time.Duration{
		0: 4096, 1: 8192, 14: 67108864, 17: 536870912, 20: 4294967296, 31: 4096 << 31,
	} {
		if got := n.Duration(); got != want {
			t.Errorf("exponent %d is %v, want %v", n, got, want)
		}
		if got := TimeoutFor(want); got != n {
			t.Errorf("TimeoutFor(%v) = %d, want %d", want, got, n)
		}
		if got := TimeoutFor(want + 1); n < 31 && got != n+1 {
			t.Errorf("TimeoutFor(%v) = %d, want %d", want+1, got, n+1)
		}
	}
	if got := TimeoutFor(1 << 62); got != 31 {
		t.Errorf("TimeoutFor(a century) = %d", got)
	}
}
