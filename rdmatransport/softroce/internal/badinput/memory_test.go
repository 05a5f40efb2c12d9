package badinput

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// An owner is another application on the host's device that gives two peers access to memory, like an initiator.
type owner struct {
	h        *host
	listener rdmatransport.Listener
	domain   rdmatransport.Domain
	qps      []rdmatransport.QueuePair
	peers    []*conn
	rw, ro   rdmatransport.MemoryRegion // 8192 bytes each: all rights, and read-only
	wo       rdmatransport.MemoryRegion // write-only
	window   rdmatransport.Window       // of queue pair 0; the first 4096 bytes of rw
	foreign  rdmatransport.Window       // of queue pair 1, the same bytes
	dead     rdmatransport.RKey         // of an invalidated window of queue pair 0
}

const ownerMemory = 8192

func newOwner(l *lab) *owner {
	l.t.Helper()
	h := l.host
	o := &owner{h: h}
	h.owner = o
	const local, read, write = rdmatransport.AccessLocalWrite, rdmatransport.AccessRemoteRead, rdmatransport.AccessRemoteWrite
	var err error
	o.domain, err = h.device.NewDomain()
	l.must(err)
	o.rw, o.ro, o.wo = o.register(local|read|write), o.register(local|read), o.register(local|write)
	o.listener, err = h.device.Listen(netip.AddrPortFrom(hostAddr, ownerPort))
	l.must(err)
	l.gremlin.to = hostAddr
	for range 2 {
		o.meet(l.gremlin)
	}
	h.loop.call(func() {
		o.window, o.foreign = o.bind(0), o.bind(1)
		dead := o.bind(0)
		o.dead = dead.RKey()
		err = errors.Join(err, o.qps[0].PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpInvalidate, InvalidateKey: o.dead}}))
	})
	l.must(err)
	l.gremlin.settle()
	return o
}

func (o *owner) register(a rdmatransport.Access) rdmatransport.MemoryRegion {
	o.h.l.t.Helper()
	m, err := o.domain.Register(bytes.Repeat([]byte{0x5a}, ownerMemory), a)
	o.h.l.must(err)
	return m
}

// meet connects the gremlin to a queue pair.
func (o *owner) meet(g *gremlin) {
	t := o.h.l.t
	t.Helper()
	c, r := g.open()
	r.Service = wire.TCPService(ownerPort)
	g.say(r)
	req, err := o.listener.Accept(t.Context())
	o.h.l.must(err)
	o.h.loop.call(func() {
		var qp rdmatransport.QueuePair
		qp, err = o.domain.NewQueuePair(rdmatransport.QPConfig{CQ: o.h.loop.cq, Windows: 4})
		if err == nil {
			o.qps = append(o.qps, qp)
			err = req.Accept(qp, rdmatransport.ConnParams{InitiatorDepth: 8, ResponderResources: 8})
		}
	})
	o.h.l.must(err)
	c.reply()
	g.say(c.rtu())
	g.settle()
	o.peers = append(o.peers, c)
}

// bind binds a window of a queue pair to the start of rw.
func (o *owner) bind(qp int) rdmatransport.Window {
	w, err := o.qps[qp].NewWindow()
	if err == nil {
		err = o.qps[qp].PostSend([]rdmatransport.SendWR{{
			Op: rdmatransport.OpBindWindow, Window: w, Access: rdmatransport.AccessRemoteRead | rdmatransport.AccessRemoteWrite,
			SGL: []rdmatransport.SGE{{Buf: o.rw.Bytes()[:4096], LKey: o.rw.LKey()}},
		}})
	}
	if err != nil {
		panic(err)
	}
	return w
}

func (o *owner) close() error {
	var err error
	o.h.loop.call(func() {
		for _, qp := range o.qps {
			err = errors.Join(err, qp.Close())
		}
	})
	return errors.Join(err, o.listener.Close(), o.rw.Deregister(), o.ro.Deregister(), o.wo.Deregister(), o.domain.Close())
}

// withQueuePair calls f with the number of a queue pair that is not connected.
func (h *host) withQueuePair(f func(rdmatransport.QPN)) {
	h.l.t.Helper()
	var qp rdmatransport.QueuePair
	domain, err := h.device.NewDomain()
	h.l.must(err)
	h.loop.call(func() { qp, err = domain.NewQueuePair(rdmatransport.QPConfig{CQ: h.loop.cq}) })
	h.l.must(err)
	f(qp.QPN())
	h.loop.call(func() { err = qp.Close() })
	h.l.must(errors.Join(err, domain.Close()))
}

// A reach is an attempt to access the owner's memory.
type reach struct {
	row    string
	op     wire.Opcode
	n      uint32 // DMA length
	data   int    // payload bytes
	target func(o *owner) (rdmatransport.RKey, uint64)
	nak    wire.Syndrome // 0: granted
}

// TestMemoryOfOthers is rows 19 to 21 where memory is registered.
func TestMemoryOfOthers(t *testing.T) {
	const read, write = wire.RCReadRequest, wire.RCWriteOnly
	const access, invalid = wire.SyndromeRemoteAccess, wire.SyndromeInvalidRequest
	at := func(off uint64) func(*owner) (rdmatransport.RKey, uint64) {
		return func(o *owner) (rdmatransport.RKey, uint64) { return o.rw.RKey(), o.rw.IOVA() + off }
	}
	window := func(off uint64) func(*owner) (rdmatransport.RKey, uint64) {
		return func(o *owner) (rdmatransport.RKey, uint64) { return o.window.RKey(), o.window.IOVA() + off }
	}
	key := func(k func(o *owner) rdmatransport.RKey) func(*owner) (rdmatransport.RKey, uint64) {
		return func(o *owner) (rdmatransport.RKey, uint64) { return k(o), o.rw.IOVA() }
	}
	random := key(func(o *owner) rdmatransport.RKey { return o.rw.RKey() ^ 0x40 })
	foreign := key(func(o *owner) rdmatransport.RKey { return o.foreign.RKey() })
	dead := key(func(o *owner) rdmatransport.RKey { return o.dead })
	readOnly := func(o *owner) (rdmatransport.RKey, uint64) { return o.ro.RKey(), o.ro.IOVA() }
	writeOnly := func(o *owner) (rdmatransport.RKey, uint64) { return o.wo.RKey(), o.wo.IOVA() }
	for _, r := range []reach{
		{"19 write, wrong key", write, 8, 8, random, access},
		{"19 read, wrong key", read, 8, 0, random, access},
		{"19 write, another connection's key", write, 8, 8, foreign, access},
		{"19 read, another connection's key", read, 8, 0, foreign, access},
		{"19 write, invalidated key", write, 8, 8, dead, access},
		{"19 read, invalidated key", read, 8, 0, dead, access},
		{"19 write where reading is allowed", write, 8, 8, readOnly, access},
		{"19 read where writing is allowed", read, 8, 0, writeOnly, access},
		{"20 read that wraps", read, 4096, 0, func(o *owner) (rdmatransport.RKey, uint64) { return o.rw.RKey(), ^uint64(0) - 10 }, access},
		{"20 write that wraps", write, 16, 16, func(o *owner) (rdmatransport.RKey, uint64) { return o.rw.RKey(), ^uint64(0) - 10 }, access},
		{"20 read below", read, 8, 0, at(^uint64(0)), access},
		{"20 write below", write, 8, 8, at(^uint64(0)), access},
		{"20 read one byte past", read, 8, 0, at(ownerMemory - 7), access},
		{"20 write one byte past", write, 8, 8, at(ownerMemory - 7), access},
		{"20 read past the window", read, 8, 0, window(4096 - 7), access},
		{"20 write past the window", write, 8, 8, window(4096 - 7), access},
		{"20 read of nothing, wrong key", read, 0, 0, random, 0},
		{"20 write of nothing, wrong key", write, 0, 0, random, 0},
		{"20 read up to the end", read, 8, 0, at(ownerMemory - 8), 0},
		{"20 read in the window", read, 8, 0, window(4096 - 8), 0},
		{"21 read of more than 2^31", read, 1<<31 + 1, 0, at(0), invalid},
		{"21 write of more than its data", write, 9, 8, at(0), invalid},
		{"21 write of less than its data", write, 7, 8, at(0), invalid},
		{"21 FIRST as long as the message", wire.RCWriteFirst, mtu, mtu, at(0), invalid},
		{"21 atomic off its alignment", wire.RCFetchAdd, 0, 0, at(4), invalid},
		{"19 atomic without the right", wire.RCFetchAdd, 0, 0, func(o *owner) (rdmatransport.RKey, uint64) { return o.rw.RKey(), o.rw.IOVA() &^ 7 }, access},
	} {
		a := attack{row: r.row, atHost: true, run: r.run}
		if r.nak != 0 {
			a.counter = errorNAKs
		}
		test(t, []attack{a})
	}
}

func (r *reach) run(l *lab) {
	o := newOwner(l)
	c := o.peers[0]
	p := c.next(r.op, make([]byte, r.data))
	key, va := r.target(o)
	p.RETH = wire.RETH{VA: va, RKey: key, DMALen: r.n}
	p.AtomicETH = wire.AtomicETH{VA: va, RKey: key, SwapAdd: 1}
	l.gremlin.send(p)
	l.gremlin.settle()
	want := wire.SyndromeAck
	if r.nak != 0 {
		want = r.nak
	}
	if len(c.got) == 2 && c.got[0].Opcode == wire.RCAck && reflect.DeepEqual(c.got[0], c.got[1]) {
		c.got = c.got[1:] // an ACK is repeated in case it was lost
	}
	if len(c.got) != 1 || c.got[0].AETH.Syndrome != want || len(c.got[0].Payload) != r.answer() {
		l.t.Errorf("answered %+v, want %v", c.got, want)
	}
	if c.gone != (r.nak != 0) {
		l.t.Errorf("connection ended: %v", c.gone)
	}
	o.wantUntouched()
	// The other connection's window still exists.
	q := o.peers[1].next(wire.RCReadRequest, nil)
	q.RETH = wire.RETH{VA: o.foreign.IOVA(), RKey: o.foreign.RKey(), DMALen: 16}
	l.gremlin.send(q)
	l.gremlin.settle()
	if got := o.peers[1].got; len(got) != 1 || len(got[0].Payload) != 16 {
		l.t.Errorf("the neighbour's READ was answered by %+v", got)
	}
	l.gremlin.leave()
	l.gremlin.to = targetAddr
	l.must(o.close())
	l.host.owner = nil
}

// TestInvalidationOfOthers is row 29 for existing keys: a peer invalidates windows of the queue pair to which it
// sends, once, and nothing else.
func TestInvalidationOfOthers(t *testing.T) {
	for _, c := range []struct {
		row string
		key func(*owner) rdmatransport.RKey
		may bool
	}{
		{"29 invalidation of a window", func(o *owner) rdmatransport.RKey { return o.window.RKey() }, true},
		{"29 invalidation of another connection's window", func(o *owner) rdmatransport.RKey { return o.foreign.RKey() }, false},
		{"29 invalidation of memory", func(o *owner) rdmatransport.RKey { return o.rw.RKey() }, false},
		{"29 invalidation of what was invalidated", func(o *owner) rdmatransport.RKey { return o.dead }, false},
	} {
		a := attack{row: c.row, atHost: true, counter: errorNAKs, run: func(l *lab) { invalidate(l, c.key, c.may) }}
		test(t, []attack{a})
	}
}

// invalidate makes the gremlin invalidate a key, and again if it may.
func invalidate(l *lab, key func(*owner) rdmatransport.RKey, may bool) {
	o := newOwner(l)
	received := make([]byte, 64)
	region, err := o.domain.Register(received, rdmatransport.AccessLocalWrite)
	l.must(err)
	o.h.loop.call(func() {
		wr := rdmatransport.RecvWR{SGL: []rdmatransport.SGE{{Buf: received, LKey: region.LKey()}}}
		err = o.qps[0].PostRecv([]rdmatransport.RecvWR{wr, wr})
	})
	l.must(err)
	c := o.peers[0]
	send := func(may bool) {
		l.t.Helper()
		c.got = nil
		p := c.next(wire.RCSendOnlyInv, make([]byte, 16))
		p.InvKey = key(o)
		l.gremlin.send(p)
		l.gremlin.settle()
		want := wire.SyndromeRemoteAccess
		if may {
			want = wire.SyndromeAck
		}
		if len(c.got) == 0 || c.got[0].AETH.Syndrome != want || c.gone == may {
			l.t.Errorf("answered %+v, want %v; connection ended: %v", c.got, want, c.gone)
		}
	}
	send(may)
	if may {
		send(false)
	}
	// The other connection still has its window and the window's memory.
	for _, key := range []rdmatransport.RKey{o.foreign.RKey(), o.rw.RKey()} {
		q := o.peers[1].next(wire.RCReadRequest, nil)
		q.RETH = wire.RETH{VA: o.foreign.IOVA(), RKey: key, DMALen: 16}
		o.peers[1].got = nil
		l.gremlin.send(q)
		l.gremlin.settle()
		if got := o.peers[1].got; len(got) != 1 || len(got[0].Payload) != 16 {
			l.t.Errorf("the neighbour's READ was answered by %+v", got)
		}
	}
	o.wantUntouched()
	l.gremlin.leave()
	l.gremlin.to = targetAddr
	l.must(errors.Join(region.Deregister(), o.close()))
	l.host.owner = nil
}

// answer returns the number of bytes in the response.
func (r *reach) answer() int {
	if r.nak == 0 && r.op == wire.RCReadRequest {
		return int(r.n)
	}
	return 0
}

func (o *owner) wantUntouched() {
	o.h.l.t.Helper()
	for _, m := range []rdmatransport.MemoryRegion{o.rw, o.ro, o.wo} {
		if !bytes.Equal(m.Bytes(), bytes.Repeat([]byte{0x5a}, ownerMemory)) {
			o.h.l.t.Error("memory was touched")
		}
	}
}
