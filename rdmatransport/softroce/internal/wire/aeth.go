package wire

import (
	"fmt"
	"math/bits"
	"time"
)

// Syndrome is the first byte of the AETH (IBTA table 44): the kind of acknowledgement in bits 5 and 6, and below it a
// credit count, an RNR timer or a NAK code.
type Syndrome uint8

const (
	// SyndromeAck is a positive acknowledgement with credit count 31, which means no end-to-end flow control (IBTA
	// 9.7.7.2).
	SyndromeAck Syndrome = 0x1f

	// NAK codes (IBTA table 46).
	SyndromeSequence          Syndrome = 0x60
	SyndromeInvalidRequest    Syndrome = 0x61
	SyndromeRemoteAccess      Syndrome = 0x62
	SyndromeRemoteOperational Syndrome = 0x63
	SyndromeInvalidRD         Syndrome = 0x64
)

// SyndromeRNR returns an RNR NAK with the given timer code (0 to 31).
func SyndromeRNR(timer uint8) Syndrome { return 0x20 | Syndrome(timer&31) }

// AETHKind is the kind of an acknowledgement.
type AETHKind uint8

const (
	AETHAck      AETHKind = 0
	AETHRNR      AETHKind = 1
	AETHReserved AETHKind = 2
	AETHNAK      AETHKind = 3
)

// Kind returns the kind of acknowledgement. Syndromes with the top bit set are reserved.
func (s Syndrome) Kind() AETHKind {
	if s&0x80 != 0 {
		return AETHReserved
	}
	return AETHKind(s >> 5)
}

// RNRDelay returns the delay that an RNR NAK asks for.
func (s Syndrome) RNRDelay() time.Duration { return rnrDelays[s&31] }

func (s Syndrome) String() string {
	switch s {
	case SyndromeSequence:
		return "NAK: PSN sequence error"
	case SyndromeInvalidRequest:
		return "NAK: invalid request"
	case SyndromeRemoteAccess:
		return "NAK: remote access error"
	case SyndromeRemoteOperational:
		return "NAK: remote operational error"
	}
	switch s.Kind() {
	case AETHAck:
		return "ACK"
	case AETHRNR:
		return fmt.Sprintf("RNR NAK: %v", s.RNRDelay())
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}

const rnrTick = 10 * time.Microsecond

// rnrDelays is IBTA table 45. Code 0 is the longest.
var rnrDelays = [32]time.Duration{
	65536 * rnrTick, 1 * rnrTick, 2 * rnrTick, 3 * rnrTick,
	4 * rnrTick, 6 * rnrTick, 8 * rnrTick, 12 * rnrTick,
	16 * rnrTick, 24 * rnrTick, 32 * rnrTick, 48 * rnrTick,
	64 * rnrTick, 96 * rnrTick, 128 * rnrTick, 192 * rnrTick,
	256 * rnrTick, 384 * rnrTick, 512 * rnrTick, 768 * rnrTick,
	1024 * rnrTick, 1536 * rnrTick, 2048 * rnrTick, 3072 * rnrTick,
	4096 * rnrTick, 6144 * rnrTick, 8192 * rnrTick, 12288 * rnrTick,
	16384 * rnrTick, 24576 * rnrTick, 32768 * rnrTick, 49152 * rnrTick,
}

// RNRTimer returns the code of the shortest RNR delay that is at least d, or the code of the longest delay.
func RNRTimer(d time.Duration) uint8 {
	for code := uint8(1); code < 32; code++ {
		if rnrDelays[code] >= d {
			return code
		}
	}
	return 0
}

// Timeout is a five-bit exponent n that means 4.096 µs · 2^n: the local ACK timeout and the timers of the connection
// manager. An ACK timeout of 0 means no timeout (IBTA 9.9.2.1.1), which the caller has to check.
type Timeout uint8

// Duration returns the time that the exponent means.
func (t Timeout) Duration() time.Duration { return 4096 * time.Nanosecond << (t & 31) }

// TimeoutFor returns the smallest exponent whose time is at least d, at most 31.
func TimeoutFor(d time.Duration) Timeout {
	if d <= 4096 {
		return 0
	}
	return Timeout(min(31, bits.Len64(uint64(d-1)>>12)))
}
