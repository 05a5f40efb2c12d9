package target

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const (
	testSubNQN  = "nqn.2026-11.io.example:test"
	testHostNQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
)

var testHostID = capsule.HostID{1, 2, 3}

// A fixture is a target with one subsystem, whose namespace 1 is in memory, and one host that it allows.
type fixture struct {
	t      *testing.T
	device *fakeDevice
	target *Target
	sub    *Subsystem
	store  *memory.Store
	logs   *observer.ObservedLogs
	arena  int // bytes of a shard's buffers
	// at is the listener of queues that dial connects. Unless a test sets it, the target does not list it.
	at *Listener
}

func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	f := &fixture{t: t, device: newFakeDevice(), logs: logs}
	cfg := Config{Device: f.device, Log: zap.New(core), Polling: nvmeof.PollNever, Shards: 2, Arena: 1 << 20, Firmware: "1.2.3"}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if f.target, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, w := range f.target.first.workers {
		// Buffers start with nonzero content, so that a response that was not written is noticed.
		if err := w.shard.Call(func() {
			b := w.shard.Arena().Bytes()
			_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) // all pages at once are a third of the time, where the kernel can
			fill(b, 0xa5)
			f.arena = len(b)
		}); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := ana.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.at = newListener(f.target.first, nil, port{1, netip.MustParseAddrPort("192.0.2.1:4420")}, paths)
	if f.sub, err = f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN}); err != nil {
		t.Fatal(err)
	}
	f.sub.AllowHost(testHostNQN)
	if f.store, err = memory.New(memory.Config{Size: 16 << 20, BlockSize: 512}); err != nil {
		t.Fatal(err)
	}
	f.export(f.store)
	t.Cleanup(f.close)
	return f
}

// export adds a store as the next namespace.
func (f *fixture) export(s backend.Store) *Namespace {
	f.t.Helper()
	ns, err := f.sub.AddNamespace(NamespaceConfig{Store: s, Name: "test"})
	if err != nil {
		f.t.Fatal(err)
	}
	if s, held := s.(interface{ set(hold bool, err error) }); held {
		f.t.Cleanup(func() { s.set(false, nil) }) // else a test that fails meanwhile would hang as it ends
	}
	return ns
}

// close checks that everything was released.
func (f *fixture) close() {
	f.t.Helper()
	if err := f.target.Close(); err != nil {
		f.t.Error(err)
	}
	if n := f.device.registered(); n != 0 {
		f.t.Errorf("%d memory regions are still registered", n)
	}
	if n := f.target.memory.mapped(); n != 0 {
		f.t.Errorf("%d bytes of queue memory are still counted", n)
	}
	for i, w := range f.target.first.workers {
		if n := w.shard.Arena().Free(); n != f.arena {
			f.t.Errorf("shard %d: %d of %d bytes of buffers came back", i, n, f.arena)
		}
		if n := w.public.Free(); n != publicSize {
			f.t.Errorf("shard %d: %d of %d bytes of public buffers came back", i, n, publicSize)
		}
		if n := len(w.parties); n != 0 {
			f.t.Errorf("shard %d: %d parties are left", i, n)
		}
		if n := w.scratch.Free(); n != scratchSize {
			f.t.Errorf("shard %d: %d of %d bytes of scratch memory came back", i, n, scratchSize)
		}
	}
	for _, s := range []*Subsystem{f.sub, f.target.discSub} {
		if n := len(s.controllers); n != 0 {
			f.t.Errorf("%d controllers of %s are left", n, s.nqn)
		}
	}
	if err := f.store.Close(); err != nil {
		f.t.Error(err)
	}
}

// A hostQueue is the host's end of a queue, without a network.
type hostQueue struct {
	t      *testing.T
	q      *queue
	active map[int]*hostCommand // belongs to the shard
	vacant []int                // belongs to the shard
	ended  bool                 // belongs to the shard
	closed chan struct{}
	// holdAck delays acknowledgements of responses until ack.
	holdAck bool
	unacked []*hostCommand // belongs to the shard
	movable bool           // MoveData is possible

	entries int
	noFlow  bool
	probes  int  // belongs to the shard
	away    bool // belongs to the shard

	party         *fabric.Party // belongs to the shard
	partyAdmitted bool          // belongs to the shard

	// For an admin queue: the namespaces that start has identified before the first command.
	mu         sync.Mutex
	identified map[capsule.NSID]bool
}

// dial connects a queue on a shard by a connection request, without the Connect command.
func (f *fixture) dial(qid capsule.QID, shardIndex, entries int) *hostQueue {
	w := f.at.device.workers[shardIndex]
	h := &hostQueue{t: f.t, active: map[int]*hostCommand{}, closed: make(chan struct{})}
	h.q = f.target.newQueue(w, f.at, qid, uint32(entries))
	h.q.wire = h
	h.q.local, h.q.remote = netip.MustParseAddrPort("192.0.2.1:4420"), netip.MustParseAddrPort("192.0.2.2:50000")
	h.q.onClosed = func() {
		f.target.freeQueue(h.q, func() error { return nil })
		close(h.closed)
	}
	if !f.target.register(h.q, 0) {
		f.t.Fatal("target is closed")
	}
	for i := range 2 * entries {
		h.vacant = append(h.vacant, i)
	}
	h.call(func() { h.q.start(2 * entries) })
	return h
}

func (h *hostQueue) call(f func()) {
	h.t.Helper()
	if err := h.q.shard.Call(f); err != nil {
		h.t.Fatal(err)
	}
}

// turns lets the shard take at least n turns.
func (h *hostQueue) turns(n int) {
	h.t.Helper()
	for range n {
		h.call(func() {})
	}
}

func (h *hostQueue) SetEntries(n int) { h.entries = n }

// SetParty implements wire.
func (h *hostQueue) SetParty(p *fabric.Party, admitted bool) {
	h.party, h.partyAdmitted = p, admitted
}

func (h *hostQueue) DisableFlowControl() { h.noFlow = true }

// Probe implements wire: a host that is away does not acknowledge it.
func (h *hostQueue) Probe() {
	if h.probes++; h.away {
		h.fail(&rdmaError{})
	}
}

// Disconnect implements wire like package fabric: the connection ends later.
func (h *hostQueue) Disconnect() { h.fail(rdmatransport.ErrDisconnected) }

func (h *hostQueue) fail(err error) {
	h.q.shard.Do(func() {
		if h.ended {
			return
		}
		h.ended = true
		h.q.Failed(err)
		for _, c := range h.active {
			if c.fetching || c.answered {
				h.acknowledge(c)
			}
		}
		h.closeIfIdle()
	})
}

func (h *hostQueue) closeIfIdle() {
	if h.ended && len(h.active) == 0 {
		h.q.Closed()
	}
}

// acknowledge ends a command.
func (h *hostQueue) acknowledge(c *hostCommand) {
	delete(h.active, c.index)
	h.vacant = append(h.vacant, c.index)
	h.q.finished(c.index)
}

// ack acknowledges the responses that were held.
func (h *hostQueue) ack() {
	h.call(func() {
		for _, c := range h.unacked {
			h.acknowledge(c)
		}
		h.unacked, h.holdAck = nil, false
	})
}

// lose ends the connection as a failure of the peer or the network does.
func (h *hostQueue) lose() {
	h.fail(&rdmaError{})
	<-h.closed
}

type rdmaError struct{}

func (*rdmaError) Error() string { return "no acknowledgement from peer" }

// A hostCommand implements link over the host's memory.
type hostCommand struct {
	h         *hostQueue
	sqe       capsule.Command
	index     int
	inCapsule []byte
	memory    []byte // data in host memory
	holdFetch bool   // the RDMA READ does not complete
	wrong     capsule.Status
	looked    func() // called when the target calls Wrong
	charged   int

	fetching, answered bool
	answers            int
	response           chan response
}

type response struct {
	status capsule.Status
	result uint64
}

func (c *hostCommand) Wrong() capsule.Status {
	if c.looked != nil {
		c.looked()
	}
	return c.wrong
}

func (c *hostCommand) Length() int       { return max(len(c.inCapsule), len(c.memory)) }
func (c *hostCommand) InCapsule() []byte { return c.inCapsule }

func (c *hostCommand) Fetch(pieces []rdmatransport.SGE) {
	c.fetching = true
	into := pieces[0].Buf
	if c.holdFetch {
		return
	}
	c.h.q.shard.Do(func() {
		if !c.h.ended {
			c.fetching = false
			copy(into, c.memory)
			c.h.q.requests[c.index].ready()
		}
	})
}

func (c *hostCommand) Reading() bool { return c.fetching }

func (c *hostCommand) Charge(n int) { c.charged += n }

func (c *hostCommand) Movable() bool                   { return c.h.movable }
func (c *hostCommand) MoveData(rdmatransport.SGE) bool { return c.h.movable }

func (c *hostCommand) Respond(s capsule.Status, result uint64) {
	c.answers++
	if c.answers > 1 {
		panic("command answered twice")
	}
	c.answered = true
	if !c.h.ended {
		c.response <- response{s, result}
	}
	c.h.q.shard.Do(func() {
		switch {
		case c.h.active[c.index] != c:
		case c.h.holdAck && !c.h.ended:
			c.h.unacked = append(c.h.unacked, c)
		default:
			c.h.acknowledge(c)
			c.h.closeIfIdle()
		}
	})
}

func (c *hostCommand) RespondData(pieces []rdmatransport.SGE, result uint64) {
	if len(c.inCapsule) > 0 {
		panic("data for the host, who wants none")
	}
	n := 0
	for _, p := range pieces {
		n += copy(c.memory[n:], p.Buf)
	}
	c.Respond(capsule.StatusSuccess, result)
}

// start sends a command; its response arrives on the channel.
func (h *hostQueue) start(c *hostCommand) *hostCommand {
	h.identify(c.sqe.NSID)
	return h.startUnidentified(c)
}

// identify identifies a namespace once, through an I/O queue's controller.
func (h *hostQueue) identify(id capsule.NSID) {
	var admin *hostQueue
	h.call(func() {
		if c := h.q.controller; c != nil && h.q.id != 0 {
			admin, _ = c.admin.wire.(*hostQueue)
		}
	})
	if admin == nil || id == 0 || id == capsule.NSIDBroadcast {
		return
	}
	admin.mu.Lock()
	defer admin.mu.Unlock()
	if admin.identified == nil {
		admin.identified = map[capsule.NSID]bool{}
	}
	if !admin.identified[id] {
		c := admin.start(identifyCommand(id, capsule.CNSNamespace))
		select {
		case r := <-c.response:
			admin.identified[id] = r.status.OK() && binary.LittleEndian.Uint64(c.memory) != 0 // of NSZE: it is there
		case <-admin.closed:
		}
	}
}

// startUnidentified is start for a host that has not identified the namespace.
func (h *hostQueue) startUnidentified(c *hostCommand) *hostCommand {
	c.h, c.response = h, make(chan response, 1)
	c.sqe.Flags |= capsule.FlagsSGL
	h.call(func() {
		if len(h.vacant) == 0 {
			panic("more commands than the queue has entries")
		}
		c.index = h.vacant[0]
		h.vacant = h.vacant[1:]
		h.active[c.index] = c
		h.q.take(c, &c.sqe, c.index)
	})
	return c
}

// do sends a command and waits for its response.
func (h *hostQueue) do(c *hostCommand) response {
	h.t.Helper()
	return <-h.start(c).response
}

func (h *hostQueue) wantStatus(want capsule.Status, c *hostCommand) response {
	h.t.Helper()
	r := h.do(c)
	if r.status != want {
		h.t.Errorf("opcode %#x: %v, want %v", c.sqe.Opcode, r.status, want)
	}
	return r
}

func (h *hostQueue) wantOK(c *hostCommand) response {
	h.t.Helper()
	return h.wantStatus(capsule.StatusSuccess, c)
}

// wantPending fails if the command has completed.
func (c *hostCommand) wantPending() {
	c.h.t.Helper()
	c.h.call(func() {})
	select {
	case r := <-c.response:
		c.h.t.Errorf("opcode %#x answered with %v, want it pending", c.sqe.Opcode, r.status)
	default:
	}
}

// identifyCommand returns Identify of a namespace.
func identifyCommand(id capsule.NSID, cns capsule.CNS) *hostCommand {
	c := adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: cns}, make([]byte, capsule.IdentifySize))
	c.sqe.NSID = id
	return c
}

type putter interface{ Put(*capsule.Command) }

func adminCommand(op capsule.AdminOpcode, fields putter, data []byte) *hostCommand {
	c := &hostCommand{sqe: capsule.Command{Opcode: capsule.Opcode(op)}, memory: data}
	if fields != nil {
		fields.Put(&c.sqe)
	}
	return c
}

func ioCommand(op capsule.IOOpcode, nsid capsule.NSID, fields putter, data []byte) *hostCommand {
	c := adminCommand(capsule.AdminOpcode(op), fields, data)
	c.sqe.NSID = nsid
	return c
}

func fabricsCommand(t capsule.FabricsType, fields putter) *hostCommand {
	c := &hostCommand{sqe: capsule.FabricsCommand(t)}
	if fields != nil {
		fields.Put(&c.sqe)
	}
	return c
}

func connectData() capsule.ConnectData {
	return capsule.ConnectData{
		HostID: testHostID, CNTLID: capsule.ControllerIDDynamic,
		SubNQN: capsule.MakeNQNField(testSubNQN), HostNQN: capsule.MakeNQNField(testHostNQN),
	}
}

func connectCommand(f capsule.Connect, d capsule.ConnectData) *hostCommand {
	c := fabricsCommand(capsule.FabricsConnect, f)
	c.memory = make([]byte, capsule.ConnectDataSize)
	d.Encode(c.memory)
	return c
}

func (h *hostQueue) property(o capsule.PropertyOffset) uint64 {
	h.t.Helper()
	return h.wantOK(fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: o.Size(), Offset: uint32(o)})).result
}

func (h *hostQueue) setCC(cc capsule.CC) {
	h.t.Helper()
	h.wantOK(fabricsCommand(capsule.FabricsPropertySet,
		capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(cc)}))
}

// linuxCC is the value that Linux writes to CC, without EN.
const linuxCC capsule.CC = 0x460060

// connectAdmin connects and enables a controller.
func (f *fixture) connectAdmin(kato uint32) (*hostQueue, capsule.ControllerID) {
	f.t.Helper()
	h := f.dial(0, 0, 32)
	r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31, KATO: kato}, connectData()))
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	return h, capsule.ParseConnectResponse(r.result).CNTLID
}

// connectIO connects I/O queue qid of a controller.
func (f *fixture) connectIO(id capsule.ControllerID, qid capsule.QID, shardIndex int) *hostQueue {
	f.t.Helper()
	h := f.dial(qid, shardIndex, 128)
	d := connectData()
	d.CNTLID = id
	h.wantOK(connectCommand(capsule.Connect{QID: qid, SQSIZE: 127}, d))
	return h
}

// both connects an admin queue and one I/O queue on another shard.
func (f *fixture) both() (admin, io *hostQueue) {
	f.t.Helper()
	admin, id := f.connectAdmin(0)
	return admin, f.connectIO(id, 1, 1)
}

func fill(b []byte, v byte) {
	for n := copy(b, []byte{v}); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
