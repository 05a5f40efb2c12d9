package rdmatest

import (
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var keyTests = []testCase{
	{"Refused", testKeysRefused},
	{"ZeroLength", testZeroLength},
	{"Deregistered", testDeregistered},
	{"OtherDomain", testOtherDomain},
	{"ClosedDomain", testClosedDomain},
	{"ClosedQueuePair", testClosedQueuePair},
	{"LocalProtection", testLocalProtection},
	{"Window", testWindow},
	{"WindowIsOneWay", testWindowOneWay},
	{"WindowOfOtherQueuePair", testWindowOfOther},
	{"WindowRebind", testWindowRebind},
	{"WindowOfDeregistered", testWindowOfDeregistered},
	{"InvalidateAndBind", testInvalidateAndBind},
	{"BindRefused", testBindRefused},
	{"SendInvalidate", testSendInvalidate},
	{"InvalidateUnknown", testInvalidateUnknown},
	{"LocalInvalidate", testLocalInvalidate},
	{"WindowCycle", testWindowCycle},
}

const (
	readOp  = rdmatransport.OpRead
	writeOp = rdmatransport.OpWrite
)

// access posts one READ or WRITE.
func (s *side) access(op rdmatransport.Opcode, n int, addr uint64, key rdmatransport.RKey) {
	s.t.Helper()
	s.post(rdmatransport.SendWR{
		ID: 1, Op: op, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{s.sge(0, n)}, RemoteAddr: addr, RKey: key,
	})
}

// wantRefused requires that an access fails for the key and ends both sides,
// with nothing written.
func (p *pair) wantRefused(a, b *side, op rdmatransport.Opcode, n int, addr uint64, key rdmatransport.RKey) {
	p.t.Helper()
	fill(a.mem[:n], 1)
	b.loop.do(func() { clear(b.mem) })
	a.access(op, n, addr, key)
	a.want(1, op, rdmatransport.StatusRemoteAccess)
	if a.wantErr() == nil || b.wantErr() == nil {
		p.t.Error("queue pairs without an error after a refused access")
	}
	b.loop.do(func() {
		for i, x := range b.mem {
			if x != 0 {
				p.t.Fatalf("refused access wrote byte %d", i)
			}
		}
	})
	if op == readOp {
		wantBytes(p.t, "scatter list of a refused READ", a.mem[:n], 1)
	}
}

// testKeysRefused are rows 19 and 20 of what a peer's key must not allow.
func testKeysRefused(p *pair) {
	const size = 4096
	readOnly := rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteRead
	writeOnly := rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteWrite
	cases := []struct {
		name   string
		access rdmatransport.Access
		op     rdmatransport.Opcode
		n      int
		off    uint64 // of the region's address
		key    rdmatransport.RKey
	}{
		{"key off by one", 0, writeOp, 8, 0, 1},
		{"write into a readable region", readOnly, writeOp, 8, 0, 0},
		{"read from a writable region", writeOnly, readOp, 8, 0, 0},
		{"write into a local region", rdmatransport.AccessLocalWrite, writeOp, 8, 0, 0},
		{"one byte below", 0, writeOp, 8, ^uint64(0), 0},
		{"one byte beyond", 0, writeOp, 8, size - 7, 0},
		{"read one byte beyond", 0, readOp, 8, size - 7, 0},
		{"past the end", 0, writeOp, 8, size, 0},
		{"far away", 0, readOp, 8, 1 << 40, 0},
		{"length of more than one packet beyond", 0, writeOp, 5000, 0, 0},
		{"read of more than the region", 0, readOp, 5000, 0, 0},
	}
	for _, c := range cases {
		a, b := p.connect(connConfig{memory: 8192})
		target := p.newSide(p.b, 0, c.name, connConfig{memory: size, access: c.access})
		a.name = c.name
		p.wantRefused(a, b, c.op, c.n, target.addr(0)+c.off, target.region.RKey()+c.key)
		for i, x := range target.mem {
			if x != 0 {
				p.t.Fatalf("%s: byte %d was written", c.name, i)
			}
		}
	}
	// The end of the address space: va + length wraps to inside nothing.
	for _, op := range []rdmatransport.Opcode{readOp, writeOp} {
		a, b := p.connect(connConfig{memory: 8192})
		a.name = "wrapping address"
		p.wantRefused(a, b, op, 64, ^uint64(0)-15, b.region.RKey())
	}
}

// testZeroLength: no key is checked for nothing (IBTA volume 1, 9.7.4.1.4).
func testZeroLength(p *pair) {
	a, _ := p.connect(connConfig{})
	for _, op := range []rdmatransport.Opcode{writeOp, readOp} {
		a.access(op, 0, 0x1234, 0xdead)
		a.want(1, op, rdmatransport.StatusSuccess)
	}
}

func testDeregistered(p *pair) {
	a, b := p.connect(connConfig{})
	mem := make([]byte, 4096)
	region, err := p.b.domain.Register(mem, allAccess)
	if err != nil {
		p.t.Fatal(err)
	}
	a.access(writeOp, 8, region.IOVA(), region.RKey())
	a.want(1, writeOp, rdmatransport.StatusSuccess)
	if err := region.Deregister(); err != nil {
		p.t.Fatalf("Deregister: %v", err)
	}
	p.wantRefused(a, b, writeOp, 8, region.IOVA(), region.RKey())
}

func testOtherDomain(p *pair) {
	a, b := p.connect(connConfig{})
	other, err := p.Passive.NewDomain()
	if err != nil {
		p.t.Fatal(err)
	}
	mem := make([]byte, 4096)
	region, err := other.Register(mem, allAccess)
	if err != nil {
		p.t.Fatal(err)
	}
	p.wantRefused(a, b, writeOp, 8, region.IOVA(), region.RKey())
	if err := region.Deregister(); err != nil {
		p.t.Error(err)
	}
	if err := other.Close(); err != nil {
		p.t.Errorf("closing an empty domain: %v", err)
	}
}

// testClosedDomain: a domain is not freed under its memory, and gives out nothing once it is.
func testClosedDomain(p *pair) {
	d, err := p.Passive.NewDomain()
	if err != nil {
		p.t.Fatal(err)
	}
	mem := make([]byte, 4096)
	region, err := d.Register(mem, allAccess)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := d.Close(); err == nil {
		p.t.Error("a domain with memory was closed")
	}
	if err := errors.Join(region.Deregister(), d.Close(), d.Close()); err != nil {
		p.t.Error(err)
	}
	_, err = d.Register(mem, allAccess)
	p.wantClosed("memory of a closed domain", err)
	l := p.b.loops[0]
	l.do(func() {
		_, err := d.NewQueuePair(rdmatransport.QPConfig{CQ: l.cq})
		p.wantClosed("a queue pair of a closed domain", err)
		if p.Passive.Attrs().MaxShared > 0 {
			_, err = d.NewSharedReceiveQueue(rdmatransport.SRQConfig{CQ: l.cq})
			p.wantClosed("a shared receive queue of a closed domain", err)
		}
	})
}

// wantClosed is for what is asked for of something that was closed before.
func (p *pair) wantClosed(what string, err error) {
	p.t.Helper()
	if !errors.Is(err, rdmatransport.ErrClosed) {
		p.t.Errorf("%s: %v, want %v", what, err, rdmatransport.ErrClosed)
	}
}

// testClosedQueuePair: a queue pair that was closed allocates no windows, and takes no requests.
func testClosedQueuePair(p *pair) {
	a, _ := p.connect(connConfig{qp: rdmatransport.QPConfig{Windows: 2}})
	a.loop.do(func() {
		if err := a.qp.Close(); err != nil {
			p.t.Error(err)
		}
		if p.Active.Attrs().Windows {
			_, err := a.qp.NewWindow()
			p.wantClosed("a window of a closed queue pair", err)
		}
		p.wantClosed("a send to a closed queue pair", a.qp.PostSend([]rdmatransport.SendWR{{ID: 1, Op: rdmatransport.OpSend}}))
		p.wantClosed("a receive of a closed queue pair", a.qp.PostRecv([]rdmatransport.RecvWR{{ID: 2}}))
	})
}

func testLocalProtection(p *pair) {
	a, _ := p.connect(connConfig{})
	sge := a.sge(0, 8)
	sge.LKey++
	a.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{sge}})
	a.want(1, rdmatransport.OpSend, rdmatransport.StatusLocalProtection)

	// A READ needs the right to write locally.
	a, b := p.connect(connConfig{access: rdmatransport.AccessRemoteRead})
	a.access(readOp, 8, b.addr(0), b.region.RKey())
	a.want(1, readOp, rdmatransport.StatusLocalProtection)

	// So does a receive.
	a, b = p.connect(connConfig{access: rdmatransport.AccessRemoteRead})
	b.recv(5, b.sge(0, 64))
	a.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, 8)}})
	b.want(5, rdmatransport.OpRecv, rdmatransport.StatusLocalProtection)
	if c := a.next(); c.Status == rdmatransport.StatusSuccess {
		p.t.Errorf("SEND into a receive without the right to write: %s", describe(c))
	}
}

// openWindow binds a window of the passive side over part of a local region.
func (p *pair) openWindow(b *side, w rdmatransport.Window, off, n int, access rdmatransport.Access) {
	p.t.Helper()
	b.post(rdmatransport.SendWR{
		ID: 700, Op: rdmatransport.OpBindWindow, Flags: rdmatransport.FlagSignaled,
		SGL: []rdmatransport.SGE{b.sge(off, n)}, Window: w, Access: access,
	})
	b.want(700, rdmatransport.OpBindWindow, rdmatransport.StatusSuccess)
}

// windowed connects two sides of which the passive one has a window. Its region
// has no remote right of its own: a window needs only the local one.
func (p *pair) windowed() (a, b *side, w rdmatransport.Window) {
	p.t.Helper()
	if !p.Passive.Attrs().Windows {
		p.t.Skip("device has no memory windows")
	}
	c := connConfig{access: rdmatransport.AccessLocalWrite, qp: rdmatransport.QPConfig{Windows: 2}}
	a, b = p.connect(c)
	b.loop.do(func() {
		var err error
		if w, err = b.qp.NewWindow(); err != nil {
			p.t.Errorf("NewWindow: %v", err)
		}
	})
	return a, b, w
}

func testWindow(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 4096, 8192, rdmatransport.AccessRemoteWrite|rdmatransport.AccessRemoteRead)
	fill(a.mem[:8192], 4)
	a.access(writeOp, 8192, w.IOVA(), w.RKey())
	a.want(1, writeOp, rdmatransport.StatusSuccess)
	b.loop.do(func() { wantBytes(p.t, "WRITE through a window", b.mem[4096:4096+8192], 4) })
	clear(a.mem)
	a.access(readOp, 100, w.IOVA()+8092, w.RKey())
	a.want(1, readOp, rdmatransport.StatusSuccess)
	if a.mem[99] != b.mem[4096+8191] {
		p.t.Error("READ through a window brought something else")
	}
	if !p.loose {
		p.wantRefused(a, b, writeOp, 2, w.IOVA()+8191, w.RKey()) // its last byte and one beyond
	}
}

func testWindowOneWay(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 0, 4096, rdmatransport.AccessRemoteRead)
	a.access(readOp, 8, w.IOVA(), w.RKey())
	a.want(1, readOp, rdmatransport.StatusSuccess)
	p.wantRefused(a, b, writeOp, 8, w.IOVA(), w.RKey())

	a, b, w = p.windowed()
	p.openWindow(b, w, 0, 4096, rdmatransport.AccessRemoteWrite)
	a.access(writeOp, 8, w.IOVA(), w.RKey())
	a.want(1, writeOp, rdmatransport.StatusSuccess)
	p.wantRefused(a, b, readOp, 8, w.IOVA(), w.RKey())
}

// testWindowOfOther: a type 2B window is valid on its own queue pair only.
func testWindowOfOther(p *pair) {
	_, b, w := p.windowed()
	p.openWindow(b, w, 0, 4096, rdmatransport.AccessRemoteWrite)
	a2, b2 := p.connect(connConfig{})
	p.wantRefused(a2, b2, writeOp, 8, w.IOVA(), w.RKey())
}

func testWindowRebind(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 0, 4096, rdmatransport.AccessRemoteWrite)
	old, addr := w.RKey(), w.IOVA()
	p.openWindow(b, w, 4096, 4096, rdmatransport.AccessRemoteWrite)
	if w.RKey() == old {
		p.t.Fatal("a bind did not change the window's key")
	}
	a.access(writeOp, 8, w.IOVA(), w.RKey())
	a.want(1, writeOp, rdmatransport.StatusSuccess)
	p.wantRefused(a, b, writeOp, 8, addr, old)
}

// testWindowOfDeregistered: the key of a window dies with the region that the window is over, or keeps that from
// being deregistered.
func testWindowOfDeregistered(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 4096, 4096, rdmatransport.AccessRemoteWrite)
	if err := b.region.Deregister(); err == nil {
		p.wantRefused(a, b, writeOp, 8, w.IOVA(), w.RKey())
		return
	}
	a.access(writeOp, 8, w.IOVA(), w.RKey())
	a.want(1, writeOp, rdmatransport.StatusSuccess)
}

func testBindRefused(p *pair) {
	if !p.Passive.Attrs().Windows {
		p.t.Skip("device has no memory windows")
	}
	_, b := p.connect(connConfig{access: rdmatransport.AccessRemoteRead, qp: rdmatransport.QPConfig{Windows: 1}})
	var w rdmatransport.Window
	b.loop.do(func() { w, _ = b.qp.NewWindow() })
	b.post(rdmatransport.SendWR{
		ID: 1, Op: rdmatransport.OpBindWindow, SGL: []rdmatransport.SGE{b.sge(0, 8)}, Window: w, Access: rdmatransport.AccessRemoteWrite,
	})
	b.want(1, rdmatransport.OpBindWindow, rdmatransport.StatusBindError)
}

func testSendInvalidate(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 4096, 4096, rdmatransport.AccessRemoteWrite)
	b.recv(3, b.sge(0, 64))
	key, addr := w.RKey(), w.IOVA()
	a.post(
		rdmatransport.SendWR{ID: 900, Op: writeOp, SGL: []rdmatransport.SGE{a.sge(0, 4096)}, RemoteAddr: addr, RKey: key},
		rdmatransport.SendWR{ID: 2, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagInvalidate | rdmatransport.FlagSignaled, InvalidateKey: key, SGL: []rdmatransport.SGE{a.sge(0, 16)}},
	)
	c := b.want(3, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	if c.Flags != rdmatransport.HasInvalidated || c.InvalidatedKey != key {
		p.t.Errorf("receive has flags %b and key %#x, want %b and %#x", c.Flags, c.InvalidatedKey, rdmatransport.HasInvalidated, key)
	}
	a.want(2, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	p.wantRefused(a, b, writeOp, 8, addr, key)
}

func testInvalidateUnknown(p *pair) {
	a, b := p.connect(connConfig{recvs: 1, recvSize: 64})
	a.post(rdmatransport.SendWR{
		ID: 1, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagInvalidate, InvalidateKey: 0x12345678, SGL: []rdmatransport.SGE{a.sge(0, 16)},
	})
	if p.coarse { // acknowledged, then refused: the end is all that comes back
		a.wantErr()
	} else if c := a.next(); c.ID != 1 || c.Status == rdmatransport.StatusSuccess {
		p.t.Errorf("invalidation of an unknown key: %s", describe(c))
	}
	if c := b.next(); c.ID != 1000 || c.Status == rdmatransport.StatusSuccess {
		p.t.Errorf("receive of it: %s", describe(c))
	}
}

func testLocalInvalidate(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 0, 4096, rdmatransport.AccessRemoteWrite)
	b.post(rdmatransport.SendWR{ID: 5, Op: rdmatransport.OpInvalidate, Flags: rdmatransport.FlagSignaled, InvalidateKey: w.RKey()})
	b.want(5, rdmatransport.OpInvalidate, rdmatransport.StatusSuccess)
	b.wantIdle(5 * time.Millisecond)
	p.wantRefused(a, b, writeOp, 8, w.IOVA(), w.RKey())
}

// testInvalidateAndBind: a window is closed and opened anew by what is posted together.
func testInvalidateAndBind(p *pair) {
	a, b, w := p.windowed()
	p.openWindow(b, w, 0, 4096, rdmatransport.AccessRemoteWrite)
	old, addr := w.RKey(), w.IOVA()
	b.post(
		rdmatransport.SendWR{ID: 5, Op: rdmatransport.OpInvalidate, Flags: rdmatransport.FlagSignaled, InvalidateKey: old},
		rdmatransport.SendWR{
			ID: 6, Op: rdmatransport.OpBindWindow, Flags: rdmatransport.FlagSignaled,
			SGL: []rdmatransport.SGE{b.sge(4096, 4096)}, Window: w, Access: rdmatransport.AccessRemoteWrite,
		},
	)
	b.want(5, rdmatransport.OpInvalidate, rdmatransport.StatusSuccess)
	b.want(6, rdmatransport.OpBindWindow, rdmatransport.StatusSuccess)
	a.access(writeOp, 8, w.IOVA(), w.RKey())
	a.want(1, writeOp, rdmatransport.StatusSuccess)
	p.wantRefused(a, b, writeOp, 8, addr, old)
}

// testWindowCycle is what a storage host does: it opens a window for each
// command and sends its key in a SEND; the peer reads through it and answers
// with an invalidation. Several at a time, so that repeated requests meet keys
// that are dead by then, and local requests stand between repeated SENDs.
func testWindowCycle(p *pair) {
	if !p.Active.Attrs().Windows {
		p.t.Skip("device has no memory windows")
	}
	const rounds, width, n = 40, 4, 6000
	a, b := p.connect(connConfig{qp: rdmatransport.QPConfig{Windows: width}})
	var ws [width]rdmatransport.Window
	a.loop.do(func() {
		for i := range ws {
			ws[i], _ = a.qp.NewWindow()
		}
	})
	for round := range rounds {
		p.windowCycle(a, b, ws[:], n, round)
	}
}

func (p *pair) windowCycle(a, b *side, ws []rdmatransport.Window, n, round int) {
	p.t.Helper()
	signaled := rdmatransport.FlagSignaled
	for i, w := range ws {
		fill(a.mem[i*n:][:n], round+i)
		b.recv(uint64(100+i), b.sge(40000+i*64, 64))
		a.recv(uint64(200+i), a.sge(40000+i*64, 64))
		a.post(
			rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpBindWindow, SGL: []rdmatransport.SGE{a.sge(i*n, n)}, Window: w, Access: rdmatransport.AccessRemoteRead},
			rdmatransport.SendWR{ID: uint64(300 + i), Op: rdmatransport.OpSend, Flags: signaled, SGL: []rdmatransport.SGE{a.sge(50000, 64)}},
		)
	}
	for i := range ws {
		b.want(uint64(100+i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	}
	for i, w := range ws {
		b.post(
			rdmatransport.SendWR{ID: 2, Op: readOp, SGL: []rdmatransport.SGE{b.sge(i*n, n)}, RemoteAddr: w.IOVA(), RKey: w.RKey()},
			rdmatransport.SendWR{ID: 3, Op: rdmatransport.OpSend, Flags: signaled | rdmatransport.FlagFence | rdmatransport.FlagInvalidate, InvalidateKey: w.RKey(), SGL: []rdmatransport.SGE{b.sge(50000, 16)}},
		)
	}
	sent, answered := 0, 0
	for range 2 * len(ws) {
		c := a.next()
		switch {
		case c.Status != rdmatransport.StatusSuccess:
			p.t.Fatalf("round %d: %s", round, describe(c))
		case c.ID == uint64(300+sent):
			sent++
		case c.ID == uint64(200+answered) && c.InvalidatedKey == ws[answered].RKey():
			answered++
		default:
			p.t.Fatalf("round %d: completion %s", round, describe(c))
		}
	}
	for range ws {
		b.want(3, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
	b.loop.do(func() {
		for i := range ws {
			wantBytes(p.t, "READ through a window", b.mem[i*n:][:n], round+i)
		}
	})
}
