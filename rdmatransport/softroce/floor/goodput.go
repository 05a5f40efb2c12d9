package floor

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Goodput is [Threads.Goodput] on whatever threads there are.
func Goodput(a, b netip.Addr, d time.Duration, packet int) (float64, error) {
	return Threads{}.Goodput(a, b, d, packet)
}

// Goodput is how many bytes of UDP payload a second one flow carries from
// address a to address b of this machine, measured for d. It sends packets of
// that size in runs as long as one send with segments allows (UDP_SEGMENT), and
// has them merged on arrival (UDP_GRO), through the same code as a queue pair's
// packets; nothing is read or copied besides. What is sent lies in 2 MiB, as 16
// transfers of 128 KiB would. The sender never has more under way than the receive
// buffer holds. Both addresses must be free of RoCEv2 endpoints.
func (t Threads) Goodput(a, b netip.Addr, d time.Duration, packet int) (float64, error) {
	from, err := udp.Listen(a, udp.Config{})
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := udp.Listen(b, udp.Config{})
	if err != nil {
		return 0, err
	}
	defer to.Close()
	port := from.Ports()[0]
	if !port.GSO() {
		return 0, fmt.Errorf("this kernel cannot segment UDP sends")
	}

	var f flow
	f.window = int64(min(to.Ports()[0].ReceiveBudget(), maxWindow))
	done := make(chan error)
	go func() { // ends when stop is set
		leave, err := enter(t.Passive)
		defer leave()
		f.receive(to.Ports()[0])
		done <- err
	}()
	leave, err := enter(t.Active)
	defer leave()
	f.send(port, netip.AddrPortFrom(b, wire.Port), d/10, packet) // warm up
	start, before := time.Now(), f.received.Load()
	f.send(port, netip.AddrPortFrom(b, wire.Port), d, packet)
	bytes, took := f.received.Load()-before, time.Since(start)
	f.stop.Store(true)
	return float64(bytes) / took.Seconds(), errors.Join(err, <-done)
}

const (
	// maxWindow keeps what is under way within a second-level cache.
	maxWindow = 512 << 10
	// Region is how many bytes are sent over and over.
	Region = 2 << 20
)

// flow is what sender and receiver share.
type flow struct {
	window   int64
	received atomic.Int64
	stop     atomic.Bool
	sent     int64 // the sender's
}

func (f *flow) receive(p udp.Port) {
	batch := p.NewBatch()
	for turn := 1; !f.stop.Load(); turn++ {
		n, _ := p.Recv(batch)
		bytes := 0
		for i := range n {
			bytes += len(batch.Datagrams[i].Data)
		}
		if f.received.Add(int64(bytes)); n == 0 && turn%yieldTurns == 0 {
			runtime.Gosched()
		}
	}
}

// send keeps the window full until the time is over.
func (f *flow) send(p udp.Port, to netip.AddrPort, d time.Duration, packet int) {
	count := min(udp.MaxSegments, udp.MaxBurst/packet)
	memory := make([]byte, Region)
	run := count * packet
	ms := []udp.Message{{To: to, SegmentSize: uint16(packet), Pieces: make([][]byte, 1)}}
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
		ms[0].Pieces[0] = memory[at:][:run]
		if at += run; at+run > len(memory) {
			at = 0
		}
		f.sent += int64(p.Send(ms) * run)
	}
}
