package floor

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Goodput is [Threads.Goodput] with the zero value.
func Goodput(a, b netip.Addr, d time.Duration, packet int) (float64, error) {
	return Threads{}.Goodput(a, b, d, packet)
}

// Goodput returns how many bytes of UDP payload per second one flow carries from address a to address b of this
// machine, measured for d. It sends packets of that size in the longest runs that one send with segmentation allows
// (UDP_SEGMENT), and has them merged on arrival (UDP_GRO), as softroce does. Nothing else is read or copied. The sent
// data lies in 2 MiB, like 16 transfers of 128 KiB. The sender never has more in flight than the receive buffer holds.
func (t Threads) Goodput(a, b netip.Addr, d time.Duration, packet int) (float64, error) {
	from, err := openSocket(a)
	if err != nil {
		return 0, err
	}
	defer from.close()
	to, err := openSocket(b)
	if err != nil {
		return 0, err
	}
	defer to.close()
	from.peer(to)
	if err := unix.SetsockoptInt(from.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, packet); err != nil {
		return 0, fmt.Errorf("this kernel cannot segment UDP sends: %w", err)
	}
	_ = unix.SetsockoptInt(to.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) // without it each packet arrives alone
	buffer, err := to.enlarge()
	if err != nil {
		return 0, err
	}

	// Half of the buffer, since the kernel counts more than the payload.
	f := flow{window: int64(min(buffer/2, maxWindow))}
	done := make(chan error)
	go func() { // ends when stop is set
		leave, err := enter(t.Passive)
		defer leave()
		f.receive(to)
		done <- err
	}()
	leave, err := enter(t.Active)
	defer leave()
	f.send(from, d/10, packet) // warm up
	start, before := time.Now(), f.received.Load()
	f.send(from, d, packet)
	bytes, took := f.received.Load()-before, time.Since(start)
	f.stop.Store(true)
	return float64(bytes) / took.Seconds(), errors.Join(err, <-done)
}

const (
	// maxWindow keeps the data in flight within a second-level cache.
	maxWindow = 512 << 10
	// Region is the size of the memory that is sent repeatedly.
	Region = 2 << 20
	// The limits of a send with segmentation, in segments and in bytes. Older kernels refuse more. A send of 64 KiB or
	// more with its headers would be split before it reaches the device.
	maxSegments = 64
	maxRun      = 65473
)

// flow is the state that sender and receiver share.
type flow struct {
	window   int64
	received atomic.Int64
	stop     atomic.Bool
	sent     int64 // written by the sender only
}

func (f *flow) receive(s *socket) {
	batch := newBatch()
	for turn := 1; !f.stop.Load(); turn++ {
		bytes := s.receiveBatch(batch)
		if f.received.Add(int64(bytes)); bytes == 0 && turn%yieldTurns == 0 {
			runtime.Gosched()
		}
	}
}

// send keeps the window full until the time is over.
func (f *flow) send(s *socket, d time.Duration, packet int) {
	memory := make([]byte, Region)
	run := min(maxSegments, maxRun/packet) * packet
	idle, seen, at := time.Now(), int64(0), 0
	for start, turn := idle, 1; time.Since(start) < d; turn++ {
		received := f.received.Load()
		if f.sent-received+int64(run) > f.window {
			now := time.Now()
			if received != seen {
				idle, seen = now, received
			} else if now.Sub(idle) > 10*time.Millisecond {
				f.sent = received // the rest was lost
			}
			if turn%yieldTurns == 0 {
				runtime.Gosched()
			}
			continue
		}
		if s.send(memory[at:][:run]) == nil {
			f.sent += int64(run)
		}
		if at += run; at+run > len(memory) {
			at = 0
		}
	}
}
