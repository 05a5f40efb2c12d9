package rdmatest

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var queueTests = []testCase{
	{"ReceiverNotReady", testReceiverNotReady},
	{"TooLong", testTooLong},
	{"FlushOnce", testFlushOnce},
	{"PostAfterEnd", testPostAfterEnd},
	{"SendQueueFull", testSendQueueFull},
	{"ReceiveQueueFull", testReceiveQueueFull},
	{"SendBeforeConnect", testSendBeforeConnect},
	{"TooManyPieces", testTooManyPieces},
	{"SignalingFreesQueue", testSignalingFreesQueue},
	{"ManyQueuePairs", testManyQueuePairs},
}

// testReceiverNotReady: a SEND without a receive waits for one; nothing is lost.
func testReceiverNotReady(p *pair) {
	a, b := p.connect(connConfig{})
	for i := range 3 {
		fill(a.mem[i*100:i*100+100], i)
		a.post(rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(i*100, 100)}})
	}
	a.wantIdle(20 * time.Millisecond)
	for i := range 3 {
		b.recv(uint64(i), b.sge(i*100, 100))
		b.want(uint64(i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		wantBytes(p.t, fmt.Sprintf("SEND %d", i), b.mem[i*100:i*100+100], i)
		a.want(uint64(i), rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
}

// testTooLong: a SEND that is longer than the receive fails.
func testTooLong(p *pair) {
	for _, n := range []int{65, 5000} {
		a, b := p.connect(connConfig{recvs: 2, recvSize: 64})
		a.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, n)}})
		b.want(1000, rdmatransport.OpRecv, rdmatransport.StatusLocalLength)
		b.wantFlushed(1001)
		a.want(1, rdmatransport.OpSend, rdmatransport.StatusRemoteInvalidRequest)
		a.wantFlushed(1000, 1001)
	}
}

// testFlushOnce: at the end every posted request completes exactly once, in order per queue, whether signaled or not.
func testFlushOnce(p *pair) {
	a, b := p.connect(connConfig{recvs: 5, recvSize: 64})
	var sends, recvs []uint64
	for i := range 8 { // five are received, three are not
		flags := rdmatransport.FlagSignaled
		if i%2 == 1 {
			flags = 0
		}
		a.post(rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: flags, SGL: []rdmatransport.SGE{a.sge(0, 16)}})
	}
	for i := range 5 {
		b.want(uint64(1000+i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	}
	for _, id := range []uint64{0, 2, 4} {
		a.want(id, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
	a.loop.do(func() { a.qp.Disconnect() })
	for range 8 {
		c := a.next()
		if c.Status != rdmatransport.StatusFlushed {
			p.t.Fatalf("completion %s after the end, want it flushed", describe(c))
		}
		if c.ID >= 1000 {
			recvs = append(recvs, c.ID)
		} else {
			sends = append(sends, c.ID)
		}
	}
	if got, want := fmt.Sprint(sends, recvs), "[5 6 7] [1000 1001 1002 1003 1004]"; got != want {
		p.t.Errorf("flushed sends and receives %s, want %s", got, want)
	}
	a.wantIdle(20 * time.Millisecond)
}

func testPostAfterEnd(p *pair) {
	a, b := p.connect(connConfig{})
	b.loop.do(func() { b.qp.Disconnect() })
	a.wantErr()
	a.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, SGL: []rdmatransport.SGE{a.sge(0, 16)}})
	a.recv(2, a.sge(0, 16))
	a.wantFlushed(1, 2)
	b.recv(3, b.sge(0, 16))
	b.wantFlushed(3)
}

func testSendQueueFull(p *pair) {
	a, b := p.connect(connConfig{qp: rdmatransport.QPConfig{MaxSend: 4}})
	send := func(id uint64) rdmatransport.SendWR {
		return rdmatransport.SendWR{ID: id, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, 16)}}
	}
	a.post(send(0), send(1), send(2)) // no receive: they stay queued
	if err := a.tryPost(send(3), send(4)); !errors.Is(err, rdmatransport.ErrQueueFull) {
		p.t.Fatalf("posting five of four: %v, want %v", err, rdmatransport.ErrQueueFull)
	}
	a.post(send(5)) // the refused post queued nothing
	for i := range 4 {
		b.recv(uint64(i), b.sge(0, 16))
	}
	for _, id := range []uint64{0, 1, 2, 5} {
		a.want(id, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
}

func testReceiveQueueFull(p *pair) {
	a := p.newSide(p.a, 0, "active", connConfig{qp: rdmatransport.QPConfig{MaxRecv: 2}})
	a.recv(0, a.sge(0, 16))
	two := rdmatransport.RecvWR{ID: 1, SGL: []rdmatransport.SGE{a.sge(0, 16)}}
	if err := a.postRecv(two, two); !errors.Is(err, rdmatransport.ErrQueueFull) {
		p.t.Fatalf("posting three of two: %v, want %v", err, rdmatransport.ErrQueueFull)
	}
	a.recv(2, a.sge(0, 16))
}

func testSendBeforeConnect(p *pair) {
	a := p.newSide(p.a, 0, "active", connConfig{})
	err := a.tryPost(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, SGL: []rdmatransport.SGE{a.sge(0, 16)}})
	if err == nil {
		p.t.Fatal("a send was taken before the connection was made")
	}
}

func testTooManyPieces(p *pair) {
	a, _ := p.connect(connConfig{qp: rdmatransport.QPConfig{MaxSGE: 2}})
	three := []rdmatransport.SGE{a.sge(0, 1), a.sge(1, 1), a.sge(2, 1)}
	if err := a.tryPost(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, SGL: three}); err == nil {
		p.t.Error("a send of three pieces was taken where two are the limit")
	}
	if err := a.postRecv(rdmatransport.RecvWR{ID: 1, SGL: three}); err == nil {
		p.t.Error("a receive of three pieces was taken where two are the limit")
	}
}

// testSignalingFreesQueue: the send queue entries of unsignaled requests are freed by a later signaled one,
// indefinitely.
func testSignalingFreesQueue(p *pair) {
	a, b := p.connect(connConfig{qp: rdmatransport.QPConfig{MaxSend: 8}})
	for round := range 20 {
		var wrs []rdmatransport.SendWR
		for i := range 8 {
			wr := rdmatransport.SendWR{
				ID: uint64(100*round + i), Op: writeOp, SGL: []rdmatransport.SGE{a.sge(0, 64)}, RemoteAddr: b.addr(0), RKey: b.region.RKey(),
			}
			if i == 7 {
				wr.Flags = rdmatransport.FlagSignaled
			}
			wrs = append(wrs, wr)
		}
		a.post(wrs...)
		a.want(uint64(100*round+7), writeOp, rdmatransport.StatusSuccess)
	}
}

// testManyQueuePairs distributes connections over the devices' completion queues and keeps all of them busy.
func testManyQueuePairs(p *pair) {
	const pairs, rounds, n = 24, 20, 1200
	for _, e := range []*end{p.a, p.b} {
		for range min(4, e.device.Attrs().Shards) - 1 {
			e.addLoop()
		}
	}
	type link struct{ a, b *side }
	var links []link
	for i := range pairs {
		a, b := p.connect(connConfig{
			loopA: i % len(p.a.loops), loopB: (i / 2) % len(p.b.loops),
			recvs: rounds, recvSize: n, memory: 2 * rounds * n,
		})
		links = append(links, link{a, b})
	}
	for i, l := range links {
		fill(l.a.mem[rounds*n:], i)
		for r := range rounds {
			l.a.post(rdmatransport.SendWR{
				ID: uint64(r), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{l.a.sge((rounds+r)*n, n)},
			})
		}
	}
	for i, l := range links {
		for r := range rounds {
			l.b.want(uint64(1000+r), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
			l.a.want(uint64(r), rdmatransport.OpSend, rdmatransport.StatusSuccess)
		}
		wantBytes(p.t, fmt.Sprintf("connection %d", i), l.b.mem[:rounds*n], i)
	}
}
