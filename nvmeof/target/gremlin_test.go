package target

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A gremlin sends arbitrary capsules over a queue pair of its own.
type gremlin struct {
	sendAt int // offset in the region of the next capsule
	r      *remote
	qp     rdmatransport.QueuePair
	slot   shard.Slot
	region rdmatransport.MemoryRegion
	got    chan gremlinEvent
	spent  []int // receives that are not posted again; belongs to the shard
	slow   bool  // receives are not posted again; belongs to the shard
}

// A gremlinEvent is a response, or the end of the connection.
type gremlinEvent struct {
	capsule.Completion
	ended       bool
	invalidated rdmatransport.RKey
}

// Layout of a gremlin's memory.
const (
	gremlinSend = 0
	gremlinRecv = 64 << 10
	gremlinData = 128 << 10
	gremlinSize = 2 << 20
)

func (r *remote) gremlin(qid capsule.QID, depth int) *gremlin {
	r.t.Helper()
	g := &gremlin{r: r, got: make(chan gremlinEvent, 4*depth)}
	access := rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteRead | rdmatransport.AccessRemoteWrite
	var err error
	if g.region, err = r.domain.Register(make([]byte, gremlinSize), access); err != nil {
		r.t.Fatal(err)
	}
	r.call(func() {
		r.shard.Attach(&g.slot, g)
		g.qp, err = r.domain.NewQueuePair(rdmatransport.QPConfig{CQ: r.shard.CQ(), MaxSend: 2 * depth, MaxRecv: 2 * depth, Windows: 2})
		for i := 0; i < 2*depth && err == nil; i++ {
			err = g.qp.PostRecv([]rdmatransport.RecvWR{g.recv(i)})
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	private := make([]byte, capsule.RequestDataSize)
	capsule.RequestData{QID: qid, HRQSIZE: uint16(depth), HSQSIZE: uint16(depth - 1)}.Encode(private)
	if _, err = r.device.Connect(r.t.Context(), g.qp, r.addr, rdmatransport.ConnParams{
		PrivateData: private, ResponderResources: 16, RetryCount: 7, RNRRetryCount: 7,
	}); err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (g *gremlin) recv(i int) rdmatransport.RecvWR {
	b := g.memory(gremlinRecv+i*16, 16)
	return rdmatransport.RecvWR{ID: g.slot.ID(uint32(i)), SGL: []rdmatransport.SGE{{Buf: b, LKey: g.region.LKey()}}}
}

func (g *gremlin) memory(off, n int) []byte { return g.region.Bytes()[off:][:n] }

const gremlinSendTag = 1 << 20

// Complete implements shard.Consumer.
func (g *gremlin) Complete(c *rdmatransport.Completion, tag uint32) {
	switch {
	case c.Status != rdmatransport.StatusSuccess:
		g.got <- gremlinEvent{ended: true}
		g.slot.Detach()
	case tag < gremlinSendTag:
		cqe, err := capsule.DecodeCompletion(g.memory(gremlinRecv+int(tag)*16, 16))
		if err == nil {
			g.got <- gremlinEvent{Completion: cqe, invalidated: c.InvalidatedKey}
		}
		if g.slow {
			g.spent = append(g.spent, int(tag))
			return
		}
		if err := g.qp.PostRecv([]rdmatransport.RecvWR{g.recv(int(tag))}); err != nil {
			panic(err)
		}
	}
}

func (g *gremlin) Retry() {}
func (g *gremlin) Flush() {}

// send sends bytes unchanged.
func (g *gremlin) send(b []byte) {
	g.r.t.Helper()
	if g.sendAt+len(b) > gremlinRecv { // earlier capsules may have to be retransmitted
		g.sendAt = gremlinSend
	}
	buf := g.memory(g.sendAt, len(b))
	g.sendAt += len(b)
	copy(buf, b)
	var err error
	g.r.call(func() {
		err = g.qp.PostSend([]rdmatransport.SendWR{{
			ID: g.slot.ID(gremlinSendTag), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
			SGL: []rdmatransport.SGE{{Buf: buf, LKey: g.region.LKey()}},
		}})
	})
	if err != nil {
		g.r.t.Fatal(err)
	}
}

// encode returns a capsule: the command followed by the data.
func encode(c capsule.Command, data []byte) []byte {
	b := make([]byte, capsule.CommandSize, capsule.CommandSize+len(data))
	c.Encode(b)
	return append(b, data...)
}

func (g *gremlin) do(c capsule.Command, data []byte) gremlinEvent {
	g.r.t.Helper()
	g.send(encode(c, data))
	return g.next()
}

func (g *gremlin) next() gremlinEvent {
	g.r.t.Helper()
	select {
	case e := <-g.got:
		return e
	case <-time.After(time.Minute): // of the bubble's clock
		g.r.t.Fatal("no answer")
		return gremlinEvent{}
	}
}

// keyed returns a descriptor of the gremlin's data memory.
func (g *gremlin) keyed(off, n int, invalidate bool) capsule.SGL {
	return capsule.KeyedSGL(g.region.IOVA()+uint64(gremlinData+off), uint32(n), uint32(g.region.RKey()), invalidate)
}

func (g *gremlin) connect(qid capsule.QID, id capsule.ControllerID, depth int) capsule.ControllerID {
	g.r.t.Helper()
	d := connectData()
	d.CNTLID = id
	d.Encode(g.memory(gremlinData, capsule.ConnectDataSize))
	c := capsule.FabricsCommand(capsule.FabricsConnect)
	capsule.Connect{QID: qid, SQSIZE: uint16(depth - 1)}.Put(&c)
	c.SGL = g.keyed(0, capsule.ConnectDataSize, false)
	e := g.do(c, nil)
	if e.ended || !e.Status.OK() {
		g.r.t.Fatalf("connect: %+v", e)
	}
	return capsule.ParseConnectResponse(e.Result).CNTLID
}

// close disconnects. It ignores remaining events.
func (g *gremlin) close() {
	g.r.call(func() {
		g.slot.Detach()
		if err := g.qp.Close(); err != nil {
			g.r.t.Error(err)
		}
	})
	if err := g.region.Deregister(); err != nil {
		g.r.t.Error(err)
	}
}

// gremlins connects a controller whose I/O queue is a gremlin.
func (r *remote) gremlins() (io *gremlin, end func()) {
	r.t.Helper()
	admin, io := r.gremlinPair()
	return io, func() { io.close(); admin.close() }
}

// gremlinPair connects an admin queue and an I/O queue of one controller as gremlins.
func (r *remote) gremlinPair() (admin, io *gremlin) {
	r.t.Helper()
	admin = r.gremlin(0, 32)
	id := admin.connect(0, capsule.ControllerIDDynamic, 32)
	c := capsule.FabricsCommand(capsule.FabricsPropertySet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(linuxCC.WithEnable(true))}.Put(&c)
	if e := admin.do(c, nil); !e.Status.OK() {
		r.t.Fatalf("enable: %+v", e)
	}
	io = r.gremlin(1, 32)
	io.connect(1, id, 32)
	return admin, io
}

func raw(addr uint64, low uint64, id byte) capsule.SGL {
	b := make([]byte, 16)
	for i := range 8 {
		b[i], b[8+i] = byte(addr>>(8*i)), byte(low>>(8*i))
	}
	b[15] = id
	s, err := capsule.DecodeSGL(b)
	if err != nil {
		panic(err)
	}
	return s
}

// TestBadSGLs is rows 47 to 49, 51 to 56 and 61 of the catalogue, over the wire.
func TestBadSGLs(t *testing.T) {
	offset, length := capsule.StatusSGLOffset|dnr, capsule.StatusSGLDataLength|dnr
	block := make([]byte, 4096)
	for _, c := range []struct {
		name string
		op   capsule.IOOpcode
		sgl  capsule.SGL
		data []byte
		psdt capsule.CommandFlags
		want capsule.Status
	}{
		{name: "no descriptor for data that there is", op: capsule.IOWrite, data: block, want: length},
		{name: "no descriptor and no data", op: capsule.IOFlush},
		{name: "no descriptor and no data", op: capsule.IOWriteZeroes},
		{name: "47 offset above the capsule's data", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(4097, 4096), data: block, want: offset},
		{name: "48 offset and length wrap", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(1<<64-1, 4096), data: block, want: offset},
		{name: "48 length all ones", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(0, 0xffffffff), data: block, want: length},
		{name: "48 offset 1, length all ones", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(1, 0xffffffff), data: block, want: length},
		{name: "49 past the end", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(16, 4096), data: block, want: length},
		{name: "49 past what arrived", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(0, 4096), data: block[:4095], want: length},
		{name: "49 nothing arrived", op: capsule.IOWrite, sgl: capsule.InCapsuleSGL(0, 4096), want: length},
		{name: "51 16 MiB - 1", op: capsule.IORead, sgl: raw(0x1000, 0xffffff, 0x40), want: invalidField},
		{name: "52 bit bucket", op: capsule.IORead, sgl: raw(0, 4096, 0x10), want: capsule.StatusSGLTypeInvalid | dnr},
		{name: "52 segment", op: capsule.IORead, sgl: raw(0, 16, 0x20), want: capsule.StatusSGLTypeInvalid | dnr},
		{name: "52 transport", op: capsule.IORead, sgl: raw(0, 4096, 0x50), want: capsule.StatusSGLTypeInvalid | dnr},
		{name: "52 vendor", op: capsule.IORead, sgl: raw(0, 4096, 0xf0), want: capsule.StatusSGLTypeInvalid | dnr},
		{name: "52 keyed, reserved subtype", op: capsule.IORead, sgl: raw(0, 4096, 0x43), want: invalidField},
		{name: "52 data block at an address", op: capsule.IORead, sgl: raw(0, 4096, 0x00), want: invalidField},
		{name: "53 zero length", op: capsule.IORead, sgl: raw(0, 0, 0x40), want: length},
		{name: "54 list past what arrived", op: capsule.IOWrite, sgl: capsule.LastSegmentSGL(0, 32), data: block[:31], want: capsule.StatusSGLSegmentInvalid | dnr},
		{name: "54 list of 17", op: capsule.IOWrite, sgl: capsule.LastSegmentSGL(0, 17*16), data: block, want: capsule.StatusSGLCountInvalid | dnr},
		{name: "54 list of 24 bytes", op: capsule.IOWrite, sgl: capsule.LastSegmentSGL(0, 24), data: block, want: capsule.StatusSGLSegmentInvalid | dnr},
		{name: "55 PRP", op: capsule.IORead, sgl: raw(0, 4096, 0x40), psdt: 0xc0, want: invalidField},
		{name: "55 reserved PSDT", op: capsule.IORead, sgl: raw(0, 4096, 0x40), psdt: 0x80, want: invalidField},
		{name: "56 data in the capsule for a read", op: capsule.IORead, sgl: capsule.InCapsuleSGL(0, 4096), data: block, want: invalidField},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, overLoopback)
				g, end := r.gremlins()
				cmd := rwCommand(c.op, 0, 1)
				cmd.Flags, cmd.SGL = capsule.FlagsSGL^c.psdt, c.sgl
				if e := g.do(cmd, c.data); e.ended || e.Status != c.want {
					t.Errorf("answer %+v, want %v", e, c.want)
				}
				good := rwCommand(capsule.IORead, 0, 1)
				good.Flags, good.SGL = capsule.FlagsSGL, g.keyed(0, 4096, false)
				if e := g.do(good, nil); !e.Status.OK() {
					t.Errorf("a good command afterwards: %+v", e)
				}
				end()
				r.close()
			})
		})
	}
}

// TestDescriptorLists transfers one block in pieces with 16 descriptors, the maximum that MSDBD allows, in both
// directions.
func TestDescriptorLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, overLoopback)
		g, end := r.gremlins()
		host := g.memory(gremlinData, 4096)
		data := pattern(4096, 3)
		move := func(op capsule.IOOpcode) {
			t.Helper()
			list := make([]byte, maxDescriptors*capsule.SGLSize)
			for i := range maxDescriptors {
				g.keyed(4096-256*(i+1), 256, false).Encode(list[i*capsule.SGLSize:]) // in reverse order
			}
			cmd := rwCommand(op, 0, 1)
			cmd.Flags, cmd.SGL = capsule.FlagsSGL, capsule.LastSegmentSGL(16, uint32(len(list)))
			if e := g.do(cmd, append(make([]byte, 16), list...)); !e.Status.OK() {
				t.Fatalf("%v: %+v", op, e)
			}
		}
		r.call(func() { copy(host, data) })
		move(capsule.IOWrite)
		for i := range 16 {
			if !bytes.Equal(r.store.Memory()[256*i:][:256], data[4096-256*(i+1):][:256]) {
				t.Fatal("other bytes were written")
			}
		}
		r.call(func() { clear(host) })
		move(capsule.IORead)
		if !bytes.Equal(host, data) {
			t.Error("other bytes were read")
		}
		end()
		r.close()
	})
}

// TestCapsuleDataAtAnOffset is row 50, and of row 58 what is no error.
func TestCapsuleDataAtAnOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, overLoopback)
		store := newFakeStore(1 << 20) // blocks of 512 bytes, buffers aligned to 4096
		if _, err := r.sub.AddNamespace(NamespaceConfig{Store: store}); err != nil {
			t.Fatal(err)
		}
		g, end := r.gremlins()
		for offset := 0; offset <= 4096-512; offset += 16 {
			data := pattern(4096, byte(offset>>4))
			cmd := rwCommand(capsule.IOWrite, 0, 1)
			cmd.NSID, cmd.Flags, cmd.SGL = 2, capsule.FlagsSGL, capsule.InCapsuleSGL(uint64(offset), 512)
			if e := g.do(cmd, data); !e.Status.OK() {
				t.Fatalf("offset %d: %+v", offset, e)
			}
			if !bytes.Equal(store.data[:512], data[offset:offset+512]) {
				t.Fatalf("offset %d: other bytes were written", offset)
			}
		}
		end()
		r.close()
	})
}

// TestFatalCapsules is rows 57, 58 and 29: exactly that queue ends.
func TestFatalCapsules(t *testing.T) {
	read := rwCommand(capsule.IORead, 0, 1)
	read.Flags = capsule.FlagsSGL
	wrong := func(op capsule.IOOpcode, change func(*gremlin) capsule.SGL) func(*gremlin) []byte {
		return func(g *gremlin) []byte {
			c := rwCommand(op, 0, 1)
			c.Flags, c.SGL = capsule.FlagsSGL, change(g)
			return encode(c, nil)
		}
	}
	for name, capsuleOf := range map[string]func(*gremlin) []byte{
		"58 63 bytes":           func(*gremlin) []byte { return encode(read, nil)[:63] },
		"58 1 byte":             func(*gremlin) []byte { return []byte{1} },
		"58 longer than a slot": func(*gremlin) []byte { return encode(read, make([]byte, 4097)) },
		"57 read to a key that is not there": wrong(capsule.IORead, func(g *gremlin) capsule.SGL {
			return capsule.KeyedSGL(g.region.IOVA(), 4096, ^uint32(g.region.RKey()), false)
		}),
		"57 read to an address outside": wrong(capsule.IORead, func(g *gremlin) capsule.SGL {
			return capsule.KeyedSGL(g.region.IOVA()+gremlinSize-100, 4096, uint32(g.region.RKey()), false)
		}),
		"57 write from a key that is not there": wrong(capsule.IOWrite, func(g *gremlin) capsule.SGL {
			return capsule.KeyedSGL(g.region.IOVA(), 4096, ^uint32(g.region.RKey()), false)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, overLoopback)
				before := bytes.Clone(r.store.Memory()[:4096])
				g, end := r.gremlins()
				_, io := r.controller(1)
				g.send(capsuleOf(g))
				if e := g.next(); !e.ended {
					t.Errorf("answer %+v, want the end of the queue", e)
				}
				io[0].do(rwCommand(capsule.IORead, 0, 1), 0, 4096)
				if !bytes.Equal(before, r.store.Memory()[:4096]) {
					t.Error("the store changed")
				}
				end()
				r.close()
			})
		})
	}
}

// TestNoInvalidationUnasked is row 60: the target invalidates no R_Key unless requested to.
func TestNoInvalidationUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, overLoopback)
		g, end := r.gremlins()
		read := rwCommand(capsule.IORead, 0, 1)
		read.Flags, read.SGL = capsule.FlagsSGL, g.keyed(0, 4096, false)
		if e := g.do(read, nil); !e.Status.OK() || e.invalidated != 0 {
			t.Errorf("answer %+v, want no invalidation", e)
		}
		end()
		r.close()
	})
}

// TestInvalidationAsConfigured is row 60: the response invalidates exactly the key that the command names, whether
// or not the command's data uses it, and none if the target is configured with PlainSend. An invalid key ends the
// queue of the host that requested it, whose provider refuses the response.
func TestInvalidationAsConfigured(t *testing.T) {
	read := func(a, _ rdmatransport.Window) capsule.Command {
		c := rwCommand(capsule.IORead, 0, 1)
		c.SGL = capsule.KeyedSGL(a.IOVA(), 4096, uint32(a.RKey()), true)
		return c
	}
	zeroes := func(_, b rdmatransport.Window) capsule.Command {
		c := rwCommand(capsule.IOWriteZeroes, 0, 1)
		c.SGL = capsule.KeyedSGL(0, 0, uint32(b.RKey()), true)
		return c
	}
	nothing := func(_, _ rdmatransport.Window) capsule.Command {
		c := rwCommand(capsule.IOWriteZeroes, 0, 1)
		c.SGL = capsule.KeyedSGL(0, 0, 0, true)
		return c
	}
	const none, first, second, end = 0, 1, 2, 3
	for _, c := range []struct {
		name  string
		plain bool
		cmd   func(a, b rdmatransport.Window) capsule.Command
		want  int
	}{
		{"the data's", false, read, first},
		{"the data's, sent plainly", true, read, none},
		{"one that has no data", false, zeroes, second},
		{"one that has no data, sent plainly", true, zeroes, none},
		{"0", false, nothing, end},
		{"0, sent plainly", true, nothing, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, overLoopback, func(cfg *Config) { cfg.PlainSend = c.plain })
				g, leave := r.gremlins()
				_, io := r.controller(1)
				a, b := g.window(0), g.window(4096)
				cmd := c.cmd(a, b)
				cmd.Flags = capsule.FlagsSGL
				want := []rdmatransport.RKey{none: 0, first: a.RKey(), second: b.RKey(), end: 0}[c.want]
				if e := g.do(cmd, nil); e.ended != (c.want == end) || !e.Status.OK() || e.invalidated != want {
					t.Errorf("answer %+v, want one that invalidates %#x", e, want)
				}
				io[0].do(rwCommand(capsule.IORead, 0, 1), 0, 4096)
				leave()
				r.close()
			})
		})
	}
}

// window opens a memory window over a page of the gremlin's data memory.
func (g *gremlin) window(off int) (w rdmatransport.Window) {
	g.r.t.Helper()
	var err error
	g.r.call(func() {
		if w, err = g.qp.NewWindow(); err == nil {
			err = g.qp.PostSend([]rdmatransport.SendWR{{
				ID: g.slot.ID(gremlinSendTag), Op: rdmatransport.OpBindWindow, Flags: rdmatransport.FlagSignaled, Window: w,
				Access: rdmatransport.AccessRemoteWrite, SGL: []rdmatransport.SGE{{Buf: g.memory(gremlinData+off, 4096), LKey: g.region.LKey()}},
			}})
		}
	})
	if err != nil {
		g.r.t.Fatal(err)
	}
	synctest.Wait()
	return w
}

// TestIdentifierOfAnEventRequest is row 61 for SPDK hosts that detach: they reuse the identifier of an outstanding
// event request for another command, which completes.
func TestIdentifierOfAnEventRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, overLoopback)
		admin, io := r.gremlinPair()
		send := func(c capsule.Command, cid capsule.CID) {
			c.CID, c.Flags = cid, capsule.FlagsSGL
			admin.send(encode(c, nil))
			synctest.Wait()
		}
		event := capsule.Command{Opcode: capsule.Opcode(capsule.AdminAsyncEvent)}
		get := capsule.FabricsCommand(capsule.FabricsPropertyGet)
		capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCSTS)}.Put(&get)
		for range 3 { // as many as are outstanding, and more
			for cid := range capsule.CID(4) {
				send(event, cid)
			}
			for cid := range capsule.CID(4) {
				send(get, cid)
				if e := admin.next(); !e.Status.OK() || e.CID != cid || !capsule.CSTS(e.Result).Ready() {
					t.Errorf("Property Get with the identifier %d of an event request: %+v", cid, e)
				}
			}
		}
		send(event, 9)
		send(event, 9) // the second replaces the first
		r.sub.AllowAnyHost(true)
		if len(admin.got) != 0 {
			t.Errorf("%+v", admin.next())
		}
		io.close()
		admin.close()
		r.close()
	})
}

// TestSameCIDTwice is rows 61 and 62: the first command is not affected, and FFFFh is an ordinary identifier.
func TestSameCIDTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, overLoopback)
		store := newFakeStore(1 << 20)
		if _, err := r.sub.AddNamespace(NamespaceConfig{Store: store}); err != nil {
			t.Fatal(err)
		}
		g, end := r.gremlins()
		store.set(true, nil)
		cmd := rwCommand(capsule.IORead, 0, 1)
		cmd.NSID, cmd.CID, cmd.Flags, cmd.SGL = 2, 0xffff, capsule.FlagsSGL, g.keyed(0, 512, false)
		g.send(encode(cmd, nil))
		synctest.Wait()
		if e := g.do(cmd, nil); e.Status != capsule.StatusCommandIDConflict|dnr {
			t.Errorf("second command: %+v", e)
		}
		store.set(false, nil)
		if e := g.next(); !e.Status.OK() || e.CID != 0xffff {
			t.Errorf("first command: %+v", e)
		}
		if e := g.do(cmd, nil); !e.Status.OK() {
			t.Errorf("the identifier again: %+v", e)
		}
		end()
		r.close()
	})
}
