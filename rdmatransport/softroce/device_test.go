package softroce

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestMoveSource: after the source has moved, retransmissions come from the new memory, and the old one is not read
// any more. The network loses packets.
func TestMoveSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(3)
		var ends []*end
		for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
			ends = append(ends, newEnd(t, Config{Addr: netip.MustParseAddr(addr), Network: n}))
		}
		a, b := ends[0], ends[1]
		n.SetFaults(func(netip.Addr, netip.Addr) udp.Faults {
			return udp.Faults{Delay: 50 * time.Microsecond, Loss: 0.2}
		})
		connect(t, a, b)
		const size, copies, rounds = 64 << 10, 512 << 10, 20
		resent := a.dev.Stats()[0].RC.Retransmits
		for round := range byte(rounds) {
			var from, to []byte
			a.do(func() {
				from, to = a.mr.Bytes()[:size], a.mr.Bytes()[copies:][:size]
				for i := range from {
					from[i] = byte(i>>8) ^ round
				}
				if err := a.qp.PostSend([]rdmatransport.SendWR{
					{ID: 7, Op: rdmatransport.OpWrite, SGL: a.sge(0, size/2), RemoteAddr: b.mr.IOVA(), RKey: b.mr.RKey()},
					{ID: 7, Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled, SGL: a.sge(size/2, size/2), RemoteAddr: b.mr.IOVA() + size/2, RKey: b.mr.RKey()},
				}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Duration(round) * 20 * time.Microsecond) // the transfer has got this far
			a.do(func() {
				copy(to, from)
				mover := a.qp.(rdmatransport.MovingQueuePair)
				if mover.MoveSource(7, from, rdmatransport.SGE{Buf: to}) || mover.MoveSource(7, from, a.sge(copies, size-1)[0]) {
					t.Error("moved to where the key is wrong, or to less memory")
				}
				if !mover.MoveSource(7, from, a.sge(copies, size)[0]) {
					t.Error("not moved")
				}
				for i := range from {
					from[i] = 0xee
				}
			})
			if c := a.want(t, 1)[0]; c.Status != rdmatransport.StatusSuccess {
				t.Fatal(c.Status)
			}
			if !bytes.Equal(b.mr.Bytes()[:size], to) {
				t.Fatalf("round %d: other data came", round)
			}
		}
		if a.dev.Stats()[0].RC.Retransmits < resent+rounds {
			t.Error("next to nothing was sent again")
		}
		finish(t, a, b)
	})
}

// loop drives one completion queue on its own goroutine, which also runs the test's functions.
type loop struct {
	cq    rdmatransport.CompletionQueue
	calls chan func()
	stop  chan struct{}
	done  sync.WaitGroup

	mu   sync.Mutex
	got  []rdmatransport.Completion
	news chan struct{}
}

func newLoop(t *testing.T, d rdmatransport.Device) *loop {
	t.Helper()
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{cq: cq, calls: make(chan func(), 64), stop: make(chan struct{}), news: make(chan struct{}, 1)}
	l.done.Go(l.run)
	return l
}

func (l *loop) run() {
	cs := make([]rdmatransport.Completion, 64)
	for {
		select {
		case <-l.stop:
			return
		case f := <-l.calls:
			f()
		default:
		}
		if n := l.cq.Poll(cs); n > 0 {
			l.mu.Lock()
			l.got = append(l.got, cs[:n]...)
			l.mu.Unlock()
			select {
			case l.news <- struct{}{}:
			default:
			}
		}
		l.cq.Flush()
		if len(l.calls) == 0 {
			l.cq.Wait(l.cq.Due())
		}
	}
}

// do runs f on the loop and waits for it.
func (l *loop) do(f func()) {
	done := make(chan struct{})
	l.calls <- func() { f(); close(done) }
	l.cq.Wake()
	<-done
}

func (l *loop) close() {
	close(l.stop)
	l.cq.Wake()
	l.done.Wait()
}

// want waits for n completions and returns them.
func (l *loop) want(t *testing.T, n int) []rdmatransport.Completion {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		l.mu.Lock()
		if len(l.got) >= n {
			out := l.got[:n]
			l.got = append([]rdmatransport.Completion(nil), l.got[n:]...)
			l.mu.Unlock()
			return out
		}
		have := len(l.got)
		l.mu.Unlock()
		select {
		case <-l.news:
		case <-deadline:
			t.Fatalf("%d completions, want %d", have, n)
		}
	}
}

// end is one side of a test: a device with one loop and a registered buffer.
type end struct {
	*loop
	dev *Device
	dom rdmatransport.Domain
	mr  rdmatransport.MemoryRegion
	qp  rdmatransport.QueuePair
}

func newEnd(t *testing.T, cfg Config) *end {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{dev: d, loop: newLoop(t, d)}
	if e.dom, err = d.NewDomain(); err != nil {
		t.Fatal(err)
	}
	all := rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteRead | rdmatransport.AccessRemoteWrite
	if e.mr, err = e.dom.Register(make([]byte, 1<<20), all); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *end) newQP(t *testing.T) {
	t.Helper()
	var err error
	e.do(func() {
		if e.qp, err = e.dom.NewQueuePair(rdmatransport.QPConfig{CQ: e.cq}); err == nil {
			err = e.qp.PostRecv([]rdmatransport.RecvWR{{ID: 1, SGL: e.sge(0, 4096)}, {ID: 2, SGL: e.sge(4096, 4096)}})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (e *end) sge(off, n int) []rdmatransport.SGE {
	return []rdmatransport.SGE{{Buf: e.mr.Bytes()[off:][:n], LKey: e.mr.LKey()}}
}

// connect makes a connection from a to b, with private data both ways.
func connect(t *testing.T, a, b *end) {
	t.Helper()
	l, err := b.dev.Listen(netip.AddrPortFrom(b.dev.Addr(), 4420))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a.newQP(t)
	b.newQP(t)
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(context.Background())
		if err == nil && !bytes.HasPrefix(r.PrivateData(), []byte("hello")) {
			err = fmt.Errorf("private data %q", r.PrivateData())
		}
		if err == nil {
			b.do(func() {
				err = r.Accept(b.qp, rdmatransport.ConnParams{PrivateData: []byte("welcome"), InitiatorDepth: 16, ResponderResources: 16, RNRRetryCount: 7})
			})
		}
		accepted <- err
	}()
	reply, err := a.dev.Connect(context.Background(), a.qp, l.Addr(), rdmatransport.ConnParams{
		PrivateData: []byte("hello"), InitiatorDepth: 16, ResponderResources: 16, RetryCount: 7, RNRRetryCount: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(reply.PrivateData, []byte("welcome")) || a.qp.ReadDepth() != 16 {
		t.Fatalf("reply %+v, read depth %d", reply, a.qp.ReadDepth())
	}
}

// exchange transfers a megabyte in both directions and compares the data.
func exchange(t *testing.T, a, b *end) {
	t.Helper()
	const half = 1 << 19
	for i := range half {
		a.mr.Bytes()[half+i] = byte(i * 31)
	}
	var err error
	a.do(func() {
		err = a.qp.PostSend([]rdmatransport.SendWR{
			{ID: 10, Op: rdmatransport.OpWrite, SGL: a.sge(half, half), RemoteAddr: b.mr.IOVA() + half, RKey: b.mr.RKey()},
			{ID: 11, Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, SGL: a.sge(8192, half-8192), RemoteAddr: b.mr.IOVA() + half, RKey: b.mr.RKey()},
			{ID: 12, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: a.sge(half, 3000)},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range a.want(t, 2) {
		if c.Status != rdmatransport.StatusSuccess {
			t.Fatalf("%d: %v", c.ID, c.Status)
		}
	}
	if c := b.want(t, 1)[0]; c.ID != 1 || c.Bytes != 3000 || c.Status != rdmatransport.StatusSuccess {
		t.Fatalf("receive %+v", c)
	}
	if !bytes.Equal(a.mr.Bytes()[8192:half], a.mr.Bytes()[half:][:half-8192]) {
		t.Fatal("WRITE and READ back differ")
	}
	if !bytes.Equal(b.mr.Bytes()[:3000], a.mr.Bytes()[half:][:3000]) {
		t.Fatal("SEND differs")
	}
}

// finish disconnects from a's side and closes everything.
func finish(t *testing.T, a, b *end) {
	t.Helper()
	a.do(a.qp.Disconnect)
	for _, e := range []*end{a, b} {
		for _, c := range e.want(t, 2-b2i(e == b)) {
			if c.Status != rdmatransport.StatusFlushed {
				t.Errorf("%+v", c)
			}
		}
	}
	for _, e := range []*end{a, b} {
		e.do(func() { e.qp.Close() })
		e.close()
		if err := e.dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestLoopback(t *testing.T) {
	a := newEnd(t, Config{Addr: netip.MustParseAddr("127.81.0.1")})
	b := newEnd(t, Config{Addr: netip.MustParseAddr("127.81.0.2")})
	connect(t, a, b)
	exchange(t, a, b)
	finish(t, a, b)
}

func TestLoopbackSmallBuffer(t *testing.T) {
	a := newEnd(t, Config{Addr: netip.MustParseAddr("127.81.0.3"), ReceiveBuffer: 212992})
	b := newEnd(t, Config{Addr: netip.MustParseAddr("127.81.0.4"), ReceiveBuffer: 212992})
	connect(t, a, b)
	exchange(t, a, b)
	finish(t, a, b)
}

func TestLossyNetwork(t *testing.T) {
	seeds := uint64(5)
	if *long {
		seeds = 20
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n := udp.NewNetwork(seed)
			n.PathMTU = 9000
			n.Faults = func(netip.Addr, netip.Addr) udp.Faults {
				return udp.Faults{Loss: 0.05, Duplicate: 0.02, Corrupt: 0.02, Delay: 200 * time.Microsecond, Jitter: 300 * time.Microsecond}
			}
			var ends []*end
			for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
				ip := netip.MustParseAddr(addr)
				ends = append(ends, newEnd(t, Config{Addr: ip, Network: n}))
			}
			connect(t, ends[0], ends[1])
			exchange(t, ends[0], ends[1])
			finish(t, ends[0], ends[1])
		})
	}
}

// TestRequestHasTimeout: the connection request tells the peer how long to wait for acknowledgements.
func TestRequestHasTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]wire.Timeout{0: 17, 20 * time.Millisecond: 13} {
		synctest.Test(t, func(t *testing.T) {
			var reported []wire.Timeout
			n := udp.NewNetwork(1)
			n.Faults = func(netip.Addr, netip.Addr) udp.Faults {
				return udp.Faults{Drop: func(payload []byte) bool {
					const mad = 12 + 8 // offset of the MAD, after BTH and DETH
					if len(payload) < mad+wire.MADSize {
						return false
					}
					if m, h, fault := wire.ParseMAD(payload[mad : mad+wire.MADSize]); fault == wire.OK && h.Attribute == wire.AttrREQ {
						var r wire.REQ
						r.Parse(m)
						reported = append(reported, r.AckTimeout)
					}
					return false
				}}
			}
			var ends []*end
			for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
				ip := netip.MustParseAddr(addr)
				ends = append(ends, newEnd(t, Config{Addr: ip, Network: n, AckTimeout: timeout}))
			}
			connect(t, ends[0], ends[1])
			finish(t, ends[0], ends[1])
			if len(reported) != 1 || reported[0] != want {
				t.Errorf("with %v the request tells %d, want %d once", timeout, reported, want)
			}
		})
	}
}

// TestDisconnectAcknowledges: a message that has arrived completes at its sender, even if the receiver disconnects at
// once.
func TestDisconnectAcknowledges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(1)
		var ends []*end
		for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
			ip := netip.MustParseAddr(addr)
			ends = append(ends, newEnd(t, Config{Addr: ip, Network: n}))
		}
		a, b := ends[0], ends[1]
		connect(t, a, b)
		var err error
		a.do(func() {
			err = a.qp.PostSend([]rdmatransport.SendWR{{ID: 10, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: a.sge(0, 100)}})
		})
		if err != nil {
			t.Fatal(err)
		}
		b.want(t, 1)
		b.do(b.qp.Disconnect)
		if c := a.want(t, 1)[0]; c.ID != 10 || c.Status != rdmatransport.StatusSuccess {
			t.Errorf("the sender's first completion is %+v", c)
		}
		for _, e := range ends {
			e.do(func() { e.qp.Close() })
			e.close()
			if err := e.dev.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
