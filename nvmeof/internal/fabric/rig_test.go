package fabric

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// A rig is a host's and a target's shard on two loopback devices. The test's goroutine owns both and runs their turns.
type rig struct {
	t      *testing.T
	host   rigEnd
	target rigEnd
}

type rigEnd struct {
	device rdmatransport.Device
	domain rdmatransport.Domain
	shard  *shard.Shard
}

var (
	hostAddr   = netip.MustParseAddr("192.0.2.1")
	targetAddr = netip.MustParseAddr("192.0.2.2")
)

// newRig opens both ends; budget is the target's receive budget, 0 for none.
func newRig(t *testing.T, budget int) *rig {
	t.Helper()
	return newRigOf(t, rdmatest.Attrs(), budget)
}

func newRigOf(t *testing.T, attrs rdmatransport.Attrs, budget int) *rig {
	t.Helper()
	n := rdmatest.NewLoopback()
	r := &rig{t: t}
	r.host = newRigEnd(t, n, hostAddr, attrs, budget)
	r.target = newRigEnd(t, n, targetAddr, attrs, budget)
	return r
}

func newRigEnd(t *testing.T, n *rdmatest.Loopback, addr netip.Addr, attrs rdmatransport.Attrs, budget int) rigEnd {
	t.Helper()
	d, err := n.Open(addr, attrs)
	if err != nil {
		t.Fatal(err)
	}
	rdmatest.SetReceiveBudget(d, budget)
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := shard.New(shard.Config{CQ: cq, Arena: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	domain, err := d.NewDomain()
	if err != nil {
		t.Fatal(err)
	}
	return rigEnd{d, domain, s}
}

func (r *rig) turn() {
	r.host.shard.Turn()
	r.target.shard.Turn()
}

// until runs turns of both shards until cond holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for range 10000 {
		if cond() {
			return
		}
		r.turn()
	}
	r.t.Fatalf("nothing came of it: %s", what)
}

// settle runs turns of both shards until nothing more can be in progress.
func (r *rig) settle() {
	for range 50 {
		r.turn()
	}
}

// connect connects a queue pair of the host to the one that accept creates for the request.
func (r *rig) connect(qp rdmatransport.QueuePair, private []byte, accept func(rdmatransport.ConnRequest) error) {
	r.t.Helper()
	l, err := r.target.device.Listen(netip.AddrPortFrom(targetAddr, 0))
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	connected := make(chan error, 1)
	go func() {
		_, err := r.host.device.Connect(context.Background(), qp, l.Addr(), rdmatransport.ConnParams{
			PrivateData: private, ResponderResources: 4, RetryCount: 7, RNRRetryCount: 7,
		})
		connected <- err
	}()
	req, err := l.Accept(context.Background())
	if err == nil {
		err = accept(req)
	}
	if err = errors.Join(err, <-connected); err != nil {
		r.t.Fatalf("connecting: %v", err)
	}
}

// A store is a handler that stores bytes: Read and Write at SLBA, in bytes.
type store struct {
	t       *testing.T
	queue   *TargetQueue
	mem     []byte
	region  rdmatransport.MemoryRegion
	pieces  int // number of pieces of a transfer
	cost    int // of each command in addition to its data
	held    []*Command
	hold    bool // keep commands instead of answering
	yields  bool // give up held commands for new ones with their identifier
	onDone  func(*Command)
	given   int
	done    int
	failed  error
	closed  int
	answers map[*Command]bool
}

func (r *rig) newStore(size int) *store {
	r.t.Helper()
	s := &store{t: r.t, mem: make([]byte, size), pieces: 1, answers: map[*Command]bool{}}
	region, err := r.target.domain.Register(s.mem, rdmatransport.AccessLocalWrite)
	if err != nil {
		r.t.Fatal(err)
	}
	s.region = region
	return s
}

func (s *store) sges(c *Command) []rdmatransport.SGE {
	off, n := int(c.SQE.CDW10), c.Length()
	var out []rdmatransport.SGE
	for i := range s.pieces {
		start, end := n*i/s.pieces, n*(i+1)/s.pieces
		out = append(out, rdmatransport.SGE{Buf: s.mem[off+start : off+end], LKey: s.region.LKey()})
	}
	return out
}

// sges0 is memory for a command whose range is outside the store.
func (s *store) sges0(c *Command) []rdmatransport.SGE {
	return []rdmatransport.SGE{{Buf: s.mem[:c.Length()], LKey: s.region.LKey()}}
}

func (s *store) Command(c *Command) {
	s.given++
	if s.answers[c] {
		s.t.Errorf("context %d is given twice without Done", c.Index)
	}
	s.answers[c] = true
	if w := c.Wrong(); !w.OK() {
		c.Respond(w, 0)
		return
	}
	if s.hold {
		s.held = append(s.held, c)
		return
	}
	s.execute(c)
}

func (s *store) execute(c *Command) {
	c.Charge(s.cost)
	switch capsule.IOOpcode(c.SQE.Opcode) {
	case capsule.IORead:
		c.RespondData(s.sges(c), 0)
	case capsule.IOWrite:
		if c.Remote() {
			c.Fetch(s.sges(c))
			return
		}
		copy(s.mem[c.SQE.CDW10:], c.InCapsule())
		c.Respond(capsule.StatusSuccess, 0)
	default:
		c.Respond(capsule.StatusInvalidOpcode|capsule.StatusDNR, 0)
	}
}

func (s *store) Reused(old *Command) bool {
	if s.yields {
		s.held = slices.DeleteFunc(s.held, func(c *Command) bool { return c == old })
	}
	return s.yields
}

func (s *store) Slow() {}

func (s *store) Fetched(c *Command) {
	if s.hold {
		s.held = append(s.held, c)
		return
	}
	c.Respond(capsule.StatusSuccess, uint64(c.Length()))
}

func (s *store) Done(c *Command) {
	s.done++
	if !s.answers[c] {
		s.t.Errorf("context %d is done without having been given", c.Index)
	}
	delete(s.answers, c)
	if s.onDone != nil {
		s.onDone(c)
	}
}

func (s *store) Failed(err error) {
	if s.failed != nil {
		s.t.Error("Failed was called twice")
	}
	s.failed = err
}

func (s *store) Closed() {
	if s.closed++; len(s.answers) != 0 {
		s.t.Errorf("closed with %d commands outstanding", len(s.answers))
	}
}

// newTarget returns a target queue for the store.
func (r *rig) newTarget(s *store, cfg TargetConfig) *TargetQueue {
	r.t.Helper()
	cfg.Shard, cfg.Domain, cfg.Attrs, cfg.Handler = r.target.shard, r.target.domain, r.target.device.Attrs(), s
	if cfg.Depth == 0 {
		cfg.Depth = 16
	}
	q, err := NewTarget(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	s.queue = q
	r.t.Cleanup(func() {
		if err := q.Free(); err != nil {
			r.t.Errorf("Free: %v", err)
		}
	})
	return q
}

// queues connects a host queue to a store.
func (r *rig) queues(s *store, tc TargetConfig, hc HostConfig) *HostQueue {
	r.t.Helper()
	q := r.newTarget(s, tc)
	hc.Shard, hc.Domain, hc.Attrs = r.host.shard, r.host.domain, r.host.device.Attrs()
	if hc.Depth == 0 {
		hc.Depth = 16
	}
	h, err := NewHost(hc)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := h.Free(); err != nil {
			r.t.Errorf("Free: %v", err)
		}
	})
	qp, err := h.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	r.connect(qp, h.RequestData(1, 1), func(req rdmatransport.ConnRequest) error {
		if _, status := CheckRequest(req, Limits{}); status != 0 {
			r.t.Fatalf("our own request is refused: %v", status)
		}
		return q.Accept(req, rdmatransport.ConnParams{})
	})
	h.Established()
	return h
}

// hostMemory registers memory of the host.
func (r *rig) hostMemory(size int, windows bool) *Memory {
	r.t.Helper()
	m, err := RegisterMemory(r.host.domain, make([]byte, size), windows)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// transfer returns a Read or Write of n bytes.
func transfer(op capsule.IOOpcode, m *Memory, off, n int, at uint32) *Request {
	return &Request{
		Command: capsule.Command{Opcode: capsule.Opcode(op), CDW10: at},
		Memory:  m, Offset: off, Length: n,
		Done: func(*Request) {},
	}
}

// run submits requests and waits for all of them.
func (r *rig) run(h *HostQueue, rs ...*Request) {
	r.t.Helper()
	left := len(rs)
	for _, q := range rs {
		q.Done = func(*Request) { left-- }
		if err := h.Submit(q); err != nil {
			r.t.Fatalf("Submit: %v", err)
		}
	}
	r.until("requests end", func() bool { return left == 0 })
}

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed)
	}
}
