package rdmatest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var dataTests = []testCase{
	{"SendSizes", testSendSizes},
	{"WriteSizes", testWriteSizes},
	{"ReadSizes", testReadSizes},
	{"ScatterLists", testScatterLists},
	{"Inline", testInline},
	{"Immediate", testImmediate},
	{"WriteImmediate", testWriteImmediate},
	{"Atomics", testAtomics},
	{"WriteBeforeSend", testWriteBeforeSend},
	{"Fence", testFence},
	{"ReadDepth", testReadDepth},
	{"BothDirections", testBothDirections},
	{"ListsAreCopied", testListsAreCopied},
}

var sizes = []int{0, 1, 3, 64, 255, 1024, 1025, 4095, 4096, 4097, 65536, 1 << 20}

func testSendSizes(p *pair) {
	a, b := p.connect(connConfig{memory: 1<<20 + 1})
	for i, n := range sizes {
		id := uint64(i)
		b.recv(id, b.sge(0, n+1))
		clear(b.mem)
		fill(a.mem[:n], i)
		a.post(rdmatransport.SendWR{ID: id, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, n)}})
		c := b.want(id, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		if int(c.Bytes) != n {
			p.t.Errorf("SEND of %d bytes: receive of %d", n, c.Bytes)
		}
		wantBytes(p.t, fmt.Sprintf("SEND of %d bytes", n), b.mem[:n], i)
		if b.mem[n] != 0 {
			p.t.Errorf("SEND of %d bytes wrote beyond its end", n)
		}
		a.want(id, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
}

func testWriteSizes(p *pair) {
	a, b := p.connect(connConfig{memory: 1<<20 + 8})
	for i, n := range sizes {
		clear(b.mem)
		fill(a.mem[:n], i)
		a.post(rdmatransport.SendWR{
			ID: uint64(i), Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, n)},
			RemoteAddr: b.addr(3), RKey: b.region.RKey(),
		})
		a.want(uint64(i), rdmatransport.OpWrite, rdmatransport.StatusSuccess)
		b.loop.do(func() { // the loop's owner sees the data
			wantBytes(p.t, fmt.Sprintf("WRITE of %d bytes", n), b.mem[3:3+n], i)
			if b.mem[2] != 0 || b.mem[3+n] != 0 {
				p.t.Errorf("WRITE of %d bytes touched its neighbours", n)
			}
		})
	}
}

func testReadSizes(p *pair) {
	a, b := p.connect(connConfig{memory: 1<<20 + 8})
	for i, n := range sizes {
		b.loop.do(func() { fill(b.mem[5:5+n], i) })
		clear(a.mem)
		a.post(rdmatransport.SendWR{
			ID: uint64(i), Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(1, n)},
			RemoteAddr: b.addr(5), RKey: b.region.RKey(),
		})
		c := a.want(uint64(i), rdmatransport.OpRead, rdmatransport.StatusSuccess)
		if int(c.Bytes) != n {
			p.t.Errorf("READ of %d bytes: completion of %d", n, c.Bytes)
		}
		wantBytes(p.t, fmt.Sprintf("READ of %d bytes", n), a.mem[1:1+n], i)
		if a.mem[0] != 0 || a.mem[1+n] != 0 {
			p.t.Errorf("READ of %d bytes touched its neighbours", n)
		}
	}
}

func testScatterLists(p *pair) {
	a, b := p.connect(connConfig{qp: rdmatransport.QPConfig{MaxSGE: 4}})
	pieces := func(s *side) []rdmatransport.SGE { // 10000 bytes in separate pieces
		return []rdmatransport.SGE{s.sge(0, 1), s.sge(100, 4999), s.sge(10000, 0), s.sge(20000, 5000)}
	}
	join := func(s *side) []byte {
		out := make([]byte, 10000)
		gather(out, pieces(s))
		return out
	}
	set := func(s *side, seed int) {
		b := make([]byte, 10000)
		fill(b, seed)
		scatter(pieces(s), b)
	}
	set(a, 1)
	b.recv(1, pieces(b)...)
	a.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, SGL: pieces(a)})
	b.want(1, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	wantBytes(p.t, "SEND", join(b), 1)

	set(a, 2)
	a.post(rdmatransport.SendWR{
		ID: 2, Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled, SGL: pieces(a), RemoteAddr: b.addr(30000), RKey: b.region.RKey(),
	})
	a.want(2, rdmatransport.OpWrite, rdmatransport.StatusSuccess)
	b.loop.do(func() { wantBytes(p.t, "WRITE", b.mem[30000:40000], 2) })

	clear(a.mem)
	a.post(rdmatransport.SendWR{
		ID: 3, Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, SGL: pieces(a), RemoteAddr: b.addr(30000), RKey: b.region.RKey(),
	})
	a.want(3, rdmatransport.OpRead, rdmatransport.StatusSuccess)
	wantBytes(p.t, "READ", join(a), 2)
}

func testInline(p *pair) {
	n := p.Active.Attrs().MaxInline
	if n == 0 {
		p.t.Skip("device has no inline sends")
	}
	n = min(n, 1024)
	a, b := p.connect(connConfig{})
	b.recv(1, b.sge(0, n))
	buf := make([]byte, n) // not registered: inline data needs no key
	fill(buf, 7)
	a.loop.do(func() {
		err := a.qp.PostSend([]rdmatransport.SendWR{{
			ID: 1, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagInline | rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{{Buf: buf}},
		}})
		if err != nil {
			p.t.Errorf("PostSend: %v", err)
		}
		clear(buf) // the buffer may be reused at once
	})
	b.want(1, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	wantBytes(p.t, "inline SEND", b.mem[:n], 7)
	a.want(1, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	long := []rdmatransport.SGE{a.sge(0, p.Active.Attrs().MaxInline+1)}
	if err := a.tryPost(rdmatransport.SendWR{ID: 2, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagInline, SGL: long}); err == nil {
		p.t.Errorf("an inline SEND beyond the limit was taken")
	}
}

func testImmediate(p *pair) {
	if !p.Active.Attrs().Immediate {
		p.t.Skip("device has no immediate data")
	}
	a, b := p.connect(connConfig{recvs: 1, recvSize: 64})
	fill(a.mem[:10], 1)
	a.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagImmediate, Imm: 0xdeadbeef, SGL: []rdmatransport.SGE{a.sge(0, 10)}})
	c := b.want(1000, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	if c.Flags != rdmatransport.HasImmediate || c.Imm != 0xdeadbeef || c.Bytes != 10 {
		p.t.Errorf("receive has flags %b, immediate %#x, %d bytes", c.Flags, c.Imm, c.Bytes)
	}
	wantBytes(p.t, "SEND", b.mem[:10], 1)
}

func testWriteImmediate(p *pair) {
	if !p.Active.Attrs().Immediate {
		p.t.Skip("device has no immediate data")
	}
	a, b := p.connect(connConfig{recvs: 2, recvSize: 64})
	for i, n := range []int{5000, 0} {
		fill(a.mem[:n], i)
		a.post(rdmatransport.SendWR{
			ID: 1, Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagImmediate, Imm: 77, SGL: []rdmatransport.SGE{a.sge(0, n)},
			RemoteAddr: b.addr(1000), RKey: b.region.RKey(),
		})
		c := b.want(uint64(1000+i), rdmatransport.OpRecvWriteImm, rdmatransport.StatusSuccess)
		if c.Flags != rdmatransport.HasImmediate || c.Imm != 77 || int(c.Bytes) != n {
			p.t.Errorf("receive has flags %b, immediate %d, %d bytes, want %d", c.Flags, c.Imm, c.Bytes, n)
		}
		wantBytes(p.t, "WRITE", b.mem[1000:1000+n], i)
	}
}

func testAtomics(p *pair) {
	if !p.Active.Attrs().Atomics {
		p.t.Skip("device has no atomics")
	}
	a, b := p.connect(connConfig{})
	get := func(m []byte) uint64 { return binary.NativeEndian.Uint64(m) }
	binary.NativeEndian.PutUint64(b.mem[64:], 40)
	atomic := func(op rdmatransport.Opcode, compare, operand, wantOld, wantNew uint64) {
		p.t.Helper()
		a.post(rdmatransport.SendWR{
			ID: 1, Op: op, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, 8)},
			RemoteAddr: b.addr(64), RKey: b.region.RKey(), Compare: compare, Operand: operand,
		})
		a.want(1, op, rdmatransport.StatusSuccess)
		if got := get(a.mem); got != wantOld {
			p.t.Errorf("atomic %d returned %d, want %d", op, got, wantOld)
		}
		b.loop.do(func() {
			if got := get(b.mem[64:]); got != wantNew {
				p.t.Errorf("atomic %d left %d, want %d", op, got, wantNew)
			}
		})
	}
	atomic(rdmatransport.OpFetchAdd, 0, 2, 40, 42)
	atomic(rdmatransport.OpFetchAdd, 0, ^uint64(0), 42, 41)
	atomic(rdmatransport.OpCompareSwap, 40, 1, 41, 41)
	atomic(rdmatransport.OpCompareSwap, 41, 7, 41, 7)
}

// testWriteBeforeSend: the receive of a SEND completes after the data of every
// WRITE posted before it is in place, and unsignaled requests complete silently.
func testWriteBeforeSend(p *pair) {
	const rounds, n = 50, 700
	a, b := p.connect(connConfig{})
	fill(a.mem[:n*4], 3)
	for i := range rounds {
		b.recv(uint64(i), b.sge(60000, 16))
		var wrs []rdmatransport.SendWR
		for j := range 4 {
			wrs = append(wrs, rdmatransport.SendWR{
				ID: 900, Op: rdmatransport.OpWrite, SGL: []rdmatransport.SGE{a.sge(j*n, n)},
				RemoteAddr: b.addr(j * n), RKey: b.region.RKey(),
			})
		}
		wrs = append(wrs, rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, 16)}})
		a.post(wrs...)
		b.want(uint64(i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		b.loop.do(func() {
			wantBytes(p.t, "data of the WRITEs", b.mem[:n*4], 3)
			clear(b.mem[:n*4])
		})
		a.want(uint64(i), rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
}

// testFence: a fenced SEND carries data that an earlier READ has fetched.
func testFence(p *pair) {
	a, b := p.connect(connConfig{memory: 256 << 10})
	const n = 100_000
	for i := range 10 {
		b.recv(uint64(i), b.sge(150_000, n))
		b.loop.do(func() { fill(b.mem[:n], i) })
		a.post(
			rdmatransport.SendWR{ID: 900, Op: rdmatransport.OpRead, SGL: []rdmatransport.SGE{a.sge(0, n)}, RemoteAddr: b.addr(0), RKey: b.region.RKey()},
			rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagFence | rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, n)}},
		)
		b.want(uint64(i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		b.loop.do(func() { wantBytes(p.t, "fenced SEND", b.mem[150_000:150_000+n], i) })
		a.want(uint64(i), rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
}

func testReadDepth(p *pair) {
	for _, depth := range []int{1, 3} {
		a, b := p.connect(connConfig{reads: depth})
		b.loop.do(func() { fill(b.mem, depth) })
		const n = 1500
		var wrs []rdmatransport.SendWR
		for i := range 40 {
			wrs = append(wrs, rdmatransport.SendWR{
				ID: uint64(i), Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled,
				SGL: []rdmatransport.SGE{a.sge(i*n, n)}, RemoteAddr: b.addr(i * n), RKey: b.region.RKey(),
			})
		}
		a.post(wrs...)
		for i := range wrs {
			a.want(uint64(i), rdmatransport.OpRead, rdmatransport.StatusSuccess)
		}
		wantBytes(p.t, "data of the READs", a.mem[:40*n], depth)
	}
}

// testBothDirections keeps both send queues busy at once.
func testBothDirections(p *pair) {
	const rounds, n = 200, 3000
	a, b := p.connect(connConfig{qp: rdmatransport.QPConfig{MaxSend: 2 * rounds, MaxRecv: rounds}, memory: 4 * n})
	for _, s := range []*side{a, b} {
		fill(s.mem[:n], len(s.name))
		for i := range rounds {
			s.recv(uint64(5000+i), s.sge(n, n))
		}
	}
	for i := range rounds {
		for _, s := range []*side{a, b} {
			s.post(rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{s.sge(0, n)}})
		}
	}
	for _, s := range []*side{a, b} {
		sent, received := uint64(0), uint64(5000)
		for range 2 * rounds {
			c := s.next()
			switch {
			case c.Status != rdmatransport.StatusSuccess:
				p.t.Fatalf("%s: %s", s.name, describe(c))
			case c.Op == rdmatransport.OpSend && c.ID == sent:
				sent++
			case c.Op == rdmatransport.OpRecv && c.ID == received && c.Bytes == n:
				received++
			default:
				p.t.Fatalf("%s: completion %s out of order: next send %d, next receive %d", s.name, describe(c), sent, received)
			}
		}
	}
	wantBytes(p.t, "last SEND", b.mem[n:2*n], len(a.name))
}

func testListsAreCopied(p *pair) {
	a, b := p.connect(connConfig{})
	fill(a.mem[:100], 9)
	a.loop.do(func() {}) // from here on the memory belongs to the loop
	recv := []rdmatransport.RecvWR{{ID: 1, SGL: []rdmatransport.SGE{b.sge(0, 100)}}}
	b.loop.do(func() {
		if err := b.qp.PostRecv(recv); err != nil {
			p.t.Errorf("PostRecv: %v", err)
		}
		recv[0].SGL[0] = rdmatransport.SGE{}
		recv[0] = rdmatransport.RecvWR{}
	})
	send := []rdmatransport.SendWR{{ID: 2, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{a.sge(0, 100)}}}
	a.loop.do(func() {
		if err := a.qp.PostSend(send); err != nil {
			p.t.Errorf("PostSend: %v", err)
		}
		send[0].SGL[0] = rdmatransport.SGE{}
		send[0] = rdmatransport.SendWR{}
	})
	b.want(1, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	a.want(2, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	wantBytes(p.t, "SEND", b.mem[:100], 9)
	a.wantIdle(5 * time.Millisecond)
}
