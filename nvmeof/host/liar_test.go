package host

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// A liar is a fake controller whose responses a test can change.
type liar struct {
	t      *testing.T
	device rdmatransport.Device
	domain rdmatransport.Domain
	shard  *shard.Shard
	arena  rdmatransport.MemoryRegion
	host   *Host
	addr   netip.AddrPort
	queues []*liarQueue // in the order in which they connected; owned by the loop

	// Its responses; a test changes them before any host connects.
	accept   rdmatransport.ConnParams
	reject   capsule.RejectStatus
	cntlid   capsule.ControllerID
	atr      bool
	proof    func(b []byte) // changes the data of Authentication Receive
	cap      capsule.CAPFields
	csts     capsule.CSTS
	identify func(*capsule.IdentifyController)
	ns       func(*capsule.IdentifyNamespace)
	nvm      capsule.IdentifyNVMController
	nsids    []capsule.NSID
	list     func(after capsule.NSID, b []byte)        // returns the namespace list, instead of nsids
	event    func() (e capsule.AsyncEvent, there bool) // returns the event for an outstanding request
	ids      func(b []byte)                            // changes the list of namespace identification descriptors
	refuse   func(*capsule.Command) capsule.Status
	empty    func(*capsule.Command) bool // completes the command with success, but without its data
	log      func(off uint64, b []byte)
	answer   func(c *fabric.Command, result *uint64, data []byte) // changes a response
	queueCnt capsule.QueueCounts
	silent   func(*capsule.Command) bool // does not complete the command
	io       func(*liarQueue, *fabric.Command)
	abort    func(capsule.Abort) (result uint64, answer bool)
	sent     func(c *capsule.Command, data []byte) // is called for admin commands with data of the host
}

func newLiar(t *testing.T) *liar {
	n := rdmatest.NewLoopback()
	return newLiarOn(t, func(at netip.Addr) (rdmatransport.Device, error) { return n.Open(at, rdmatest.Attrs()) })
}

// newLiarOn returns a liar on devices of another kind.
func newLiarOn(t *testing.T, open func(netip.Addr) (rdmatransport.Device, error)) *liar {
	l := &liar{
		t: t, addr: netip.MustParseAddrPort("192.0.2.2:4420"), cntlid: 7,
		cap:      capsule.CAPFields{MQES: 127, CQR: true, TO: 1, CSS: capsule.CSSNVM},
		csts:     capsule.CSTSReady,
		identify: func(*capsule.IdentifyController) {}, ns: func(*capsule.IdentifyNamespace) {},
		ids: func([]byte) {}, empty: func(*capsule.Command) bool { return false }, refuse: func(*capsule.Command) capsule.Status { return 0 },
		nsids: []capsule.NSID{1}, log: func(uint64, []byte) {}, silent: func(*capsule.Command) bool { return false },
		queueCnt: capsule.QueueCounts{Submission: 4, Completion: 4},
		io:       func(_ *liarQueue, c *fabric.Command) { c.Respond(0, 0) },
		answer:   func(*fabric.Command, *uint64, []byte) {},
		event:    func() (capsule.AsyncEvent, bool) { return capsule.AsyncEvent{}, false },
		abort:    func(capsule.Abort) (uint64, bool) { return 1, true },
		sent:     func(*capsule.Command, []byte) {},
	}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	hostDevice, err := open(netip.MustParseAddr("192.0.2.1"))
	must(err)
	l.host, err = New(Config{Device: hostDevice, Shards: 1, Polling: nvmeof.PollNever})
	must(err)
	l.device, err = open(l.addr.Addr())
	must(err)
	l.domain, err = l.device.NewDomain()
	must(err)
	cq, err := l.device.NewCompletionQueue(rdmatransport.CQConfig{})
	must(err)
	l.shard, err = shard.New(shard.Config{CQ: cq, Polling: nvmeof.PollNever, Arena: 4 << 20})
	must(err)
	l.arena, err = l.domain.Register(l.shard.Arena().Bytes(), rdmatransport.AccessLocalWrite)
	must(err)
	l.shard.Start()
	listener, err := l.device.Listen(l.addr)
	must(err)
	ended := make(chan struct{})
	go l.serve(listener, ended)
	t.Cleanup(func() {
		must(l.host.Close())
		must(listener.Close())
		<-ended
		for _, q := range l.queues {
			l.shard.Do(q.queue.Disconnect)
			<-q.closed
			must(q.queue.Free())
		}
		must(l.shard.Close())
	})
	return l
}

func (l *liar) serve(listener rdmatransport.Listener, ended chan struct{}) {
	defer close(ended)
	for {
		req, err := listener.Accept(context.Background())
		if err != nil {
			return
		}
		if l.reject != 0 {
			fabric.Reject(req, l.reject)
			continue
		}
		q := &liarQueue{liar: l, closed: make(chan struct{})}
		d, _ := fabric.CheckRequest(req, fabric.Limits{})
		q.id = d.QID
		q.queue, err = fabric.NewTarget(fabric.TargetConfig{
			Shard: l.shard, Domain: l.domain, Attrs: l.device.Attrs(), Handler: q, Depth: int(d.HSQSIZE) + 1, InCapsule: 1024,
			MaxDescriptors: 16,
		})
		if err == nil {
			l.shard.Call(func() {
				if err = q.queue.Accept(req, l.accept); err == nil {
					l.queues = append(l.queues, q)
				}
			})
		}
		if err != nil {
			l.t.Errorf("accepting: %v", err)
			return
		}
	}
}

type liarQueue struct {
	liar   *liar
	queue  *fabric.TargetQueue
	id     capsule.QID
	held   []*fabric.Command
	failed bool
	closed chan struct{}
}

func (q *liarQueue) Slow()                       {}
func (q *liarQueue) Reused(*fabric.Command) bool { return false }

func (q *liarQueue) Command(c *fabric.Command) {
	refused := q.liar.refuse(&c.SQE)
	switch {
	case !c.Wrong().OK():
		c.Respond(c.Wrong(), 0)
	case refused != 0:
		c.Respond(refused, 0)
	case q.liar.empty(&c.SQE):
		c.Respond(0, 0)
	case q.liar.silent(&c.SQE):
		if q.failed {
			c.Respond(0, 0)
			return
		}
		q.held = append(q.held, c)
	case c.Remote() && c.Direction() == capsule.HostToController:
		c.Fetch(q.piece(c))
	case c.SQE.Opcode == capsule.OpcodeFabrics:
		q.fabrics(c)
	case q.id != 0:
		q.liar.io(q, c)
	default:
		q.admin(c)
	}
}

// piece is the memory of a command's data; several pieces are combined.
func (q *liarQueue) piece(c *fabric.Command) []rdmatransport.SGE {
	at := int(c.Index) * 8192
	if c.Length() > 8192 {
		at = 2 << 20
	}
	b := q.liar.shard.Arena().Bytes()[at:][:c.Length()]
	return []rdmatransport.SGE{{Buf: b, LKey: q.liar.arena.LKey()}}
}

// data returns the data of a command.
func (q *liarQueue) data(c *fabric.Command) []byte {
	if b := c.InCapsule(); b != nil {
		return b
	}
	return q.piece(c)[0].Buf
}

func (q *liarQueue) fabrics(c *fabric.Command) {
	l := q.liar
	switch c.SQE.FabricsType() {
	case capsule.FabricsConnect:
		q.result(c, capsule.ConnectResponse{CNTLID: l.cntlid, ATR: l.atr}.Result())
	case capsule.FabricsAuthReceive:
		pieces := q.piece(c)
		clear(pieces[0].Buf)
		l.proof(pieces[0].Buf)
		c.RespondData(pieces, 0)
	case capsule.FabricsPropertyGet:
		switch capsule.PropertyOffset(c.SQE.Property().Offset) {
		case capsule.PropertyCAP:
			q.result(c, uint64(l.cap.CAP()))
		case capsule.PropertyCSTS:
			q.result(c, uint64(l.csts.WithShutdown(capsule.ShutdownComplete)))
		default:
			q.result(c, 0x20000)
		}
	default:
		c.Respond(0, 0)
	}
}

func (q *liarQueue) admin(c *fabric.Command) {
	l := q.liar
	if c.Length() == 0 {
		result, answer := uint64(0), true
		switch capsule.AdminOpcode(c.SQE.Opcode) {
		case capsule.AdminSetFeatures:
			result = uint64(l.queueCnt.Value())
		case capsule.AdminAbort:
			result, answer = l.abort(c.SQE.Abort())
		case capsule.AdminAsyncEvent:
			var e capsule.AsyncEvent
			e, answer = l.event()
			result = uint64(e.Value())
		}
		if !answer {
			q.held = append(q.held, c)
			return
		}
		q.result(c, result)
		return
	}
	pieces := q.piece(c)
	b := pieces[0].Buf
	clear(b)
	switch capsule.AdminOpcode(c.SQE.Opcode) {
	case capsule.AdminIdentify:
		q.identify(c, b)
	case capsule.AdminGetLogPage:
		l.log(c.SQE.GetLogPage().LPO, b)
	}
	result := uint64(0)
	l.answer(c, &result, b)
	c.RespondData(pieces, result)
}

// result completes a command without data.
func (q *liarQueue) result(c *fabric.Command, result uint64) {
	q.liar.answer(c, &result, nil)
	c.Respond(0, result)
}

func (q *liarQueue) identify(c *fabric.Command, b []byte) {
	l := q.liar
	switch c.SQE.Identify().CNS {
	case capsule.CNSController:
		id := capsule.IdentifyController{
			CNTLID: l.cntlid, CNTRLTYPE: capsule.ControllerTypeIO, KAS: 1, SQES: 0x66, CQES: 0x44, MAXCMD: 128,
			SGLS: capsule.SGLSSupported | capsule.SGLSKeyed | capsule.SGLSOffset, IOCCSZ: 4 + 64, IORCSZ: 1, MSDBD: 1,
		}
		l.identify(&id)
		id.Encode(b)
	case capsule.CNSNamespace:
		ns := capsule.IdentifyNamespace{NSZE: 100, NCAP: 100}
		ns.LBAF[0].LBADS = 9
		l.ns(&ns)
		ns.Encode(b)
	case capsule.CNSControllerCSI:
		l.nvm.Encode(b)
	case capsule.CNSDescriptors:
		l.ids(b)
	case capsule.CNSActiveNamespaces:
		if l.list != nil {
			l.list(c.SQE.NSID, b)
			break
		}
		capsule.PutNamespaceList(b, l.nsids)
	}
}

func (q *liarQueue) Fetched(c *fabric.Command) {
	if q.id != 0 && c.SQE.Opcode != capsule.OpcodeFabrics {
		q.liar.io(q, c)
		return
	}
	q.liar.sent(&c.SQE, q.data(c))
	q.fabrics(c)
}
func (q *liarQueue) Done(*fabric.Command) {}

func (q *liarQueue) Failed(error) {
	q.failed = true
	for _, c := range q.held {
		c.Respond(0, 0)
	}
	q.held = nil
}

func (q *liarQueue) Closed() { close(q.closed) }

func (l *liar) options() Options {
	return Options{Traddr: l.addr.Addr(), NQN: testNQN, NrIOQueues: 2}
}

// wantRefused requires that a connection is refused for the reason given.
func (l *liar) wantRefused(o Options, why string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := l.host.Connect(ctx, o)
	if err == nil || !strings.Contains(err.Error(), why) {
		l.t.Errorf("Connect: %v, want an error that says %q", err, why)
	}
	var step *ConnectError
	if !errors.As(err, &step) {
		l.t.Errorf("%v is no ConnectError", err)
	}
}
