package rdmatransport

import (
	"context"
	"errors"
	"time"
)

// A Capturer is a device that can copy the packets that it receives and sends, as softroce
// does. While nobody captures that costs nothing but a look whether somebody does.
type Capturer interface {
	// Capture begins to copy packets. It fails with [ErrCapturing] while another capture of
	// the device has not ended, and with [ErrClosed].
	Capture(CaptureConfig) (Capture, error)
}

// ErrCapturing says that a device's packets are being captured already.
var ErrCapturing = errors.New("packets are being captured already")

// CaptureConfig says what is captured. A zero field takes the default.
type CaptureConfig struct {
	Snap   int   // bytes of each packet that are kept, from its IP header on; default: all
	Buffer int   // bytes that each completion queue keeps until they are read; default 1 MiB
	Only   []QPN // queue pairs of the device, as in Select; default: all packets
}

// A Capture is one under way. One goroutine at a time uses it.
type Capture interface {
	// Select captures from now on the packets of these queue pairs alone, which the device's
	// own numbers name, or those of connection management too (1); nil: all.
	Select([]QPN)
	// Read returns what was captured since the last Read. After an error the capture is of
	// no use any more.
	Read(context.Context) (Captured, error)
	// Close ends it.
	Close()
}

// Captured is what a capture has copied.
type Captured struct {
	Packets []CapturedPacket // in order of time; they are valid until the next Read
	Seen    uint64           // packets since the capture began that it was for
	Dropped uint64           // of these, those that found no room, since they were not read in time
}

// A CapturedPacket is an IP packet without options, or the beginning of one. What the
// device cannot see is as Linux sends it: the TTL is 64. The UDP checksum of a packet
// that is not complete is zero.
type CapturedPacket struct {
	Time   time.Time
	Out    bool // sent; it may have been lost before the network had it
	QPN    QPN  // the device's queue pair; 0: none
	Length int  // bytes of the packet
	Data   []byte
}
