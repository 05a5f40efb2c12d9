package rdmatransport

import (
	"context"
	"errors"
	"time"
)

// A Capturer is a device that can copy the packets that it receives and sends; softroce can. Without a capture in
// progress, the cost is one check per packet.
type Capturer interface {
	// Capture starts to copy packets. It returns [ErrCapturing] if the device already has an open capture, and
	// [ErrClosed] if the device is closed.
	Capture(CaptureConfig) (Capture, error)
}

// ErrCapturing is returned when a device's packets are being captured already.
var ErrCapturing = errors.New("packets are being captured already")

// CaptureConfig selects what is captured. A zero field takes the default.
type CaptureConfig struct {
	Snap   int   // bytes kept of each packet, counted from its IP header; default: all
	Buffer int   // bytes buffered per completion queue until Read; default 1 MiB
	Only   []QPN // queue pairs to capture, as in Select; default: all packets
}

// A Capture is a capture in progress. It must be used by one goroutine at a time.
type Capture interface {
	// Select restricts the capture, from now on, to the given local queue pair numbers. Number 1 stands for
	// connection management. A nil slice captures all packets.
	Select([]QPN)
	// Read returns the packets captured since the last Read. After an error the capture cannot be used any more.
	Read(context.Context) (Captured, error)
	// Close ends the capture.
	Close()
}

// Captured holds the packets that a capture has copied.
type Captured struct {
	Packets []CapturedPacket // in order of time; valid until the next Read
	Seen    uint64           // packets selected since the capture began
	Dropped uint64           // those of Seen that were lost because the buffer was full
}

// A CapturedPacket is an IP packet without options, possibly truncated. Fields that the device cannot see have the
// values that Linux sends: the TTL is 64. The UDP checksum of a truncated packet is zero.
type CapturedPacket struct {
	Time   time.Time
	Out    bool // sent, though perhaps dropped before it reached the network
	QPN    QPN  // the local queue pair; 0: none
	Length int  // length of the whole packet in bytes
	Data   []byte
}
