package host

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// A liar is a controller that says what a test makes it say.
type liar struct {
	t      *testing.T
	device rdmatransport.Device
	domain rdmatransport.Domain
	shard  *shard.Shard
	arena  rdmatransport.MemoryRegion
	host   *Host
	addr   netip.AddrPort
	queues []*liarQueue // in the order of their connection; the loop's

	// What it says; a test changes it before anybody connects.
	accept   rdmatransport.ConnParams
	reject   capsule.RejectStatus
	cntlid   capsule.ControllerID
	atr      bool
	proof    func(b []byte) // what Authentication Receive gives
	cap      capsule.CAPFields
	csts     capsule.CSTS
	identify func(*capsule.IdentifyController)
	ns       func(*capsule.IdentifyNamespace)
	nvm      capsule.IdentifyNVMController
	nsids    []capsule.NSID
	log      func(off uint64, b []byte)
	queueCnt capsule.QueueCounts
	silent   func(*capsule.Command) bool // gets no answer
	io       func(*liarQueue, *fabric.Command)
	abort    func(capsule.Abort) (result uint64, answer bool)
}

func newLiar(t *testing.T) *liar {
	n := rdmatest.NewLoopback()
	l := &liar{
		t: t, addr: netip.MustParseAddrPort("192.0.2.2:4420"), cntlid: 7,
		cap:      capsule.CAPFields{MQES: 127, CQR: true, TO: 1, CSS: capsule.CSSNVM},
		csts:     capsule.CSTSReady,
		identify: func(*capsule.IdentifyController) {}, ns: func(*capsule.IdentifyNamespace) {},
		nsids: []capsule.NSID{1}, log: func(uint64, []byte) {}, silent: func(*capsule.Command) bool { return false },
		queueCnt: capsule.QueueCounts{Submission: 4, Completion: 4},
		io:       func(_ *liarQueue, c *fabric.Command) { c.Respond(0, 0) },
		abort:    func(capsule.Abort) (uint64, bool) { return 1, true },
	}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	hostDevice, err := n.Open(netip.MustParseAddr("192.0.2.1"), rdmatest.Attrs())
	must(err)
	l.host, err = New(Config{Device: hostDevice, Shards: 1, Polling: shard.PollNever})
	must(err)
	l.device, err = n.Open(l.addr.Addr(), rdmatest.Attrs())
	must(err)
	l.domain, err = l.device.NewDomain()
	must(err)
	cq, err := l.device.NewCompletionQueue(rdmatransport.CQConfig{})
	must(err)
	l.shard, err = shard.New(shard.Config{CQ: cq, Polling: shard.PollNever, Arena: 4 << 20})
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

func (q *liarQueue) Command(c *fabric.Command) {
	switch {
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

// piece is memory for a command's data: of the long ones, that of all.
func (q *liarQueue) piece(c *fabric.Command) []rdmatransport.SGE {
	at := c.Index() * 8192
	if c.Length() > 8192 {
		at = 2 << 20
	}
	b := q.liar.shard.Arena().Bytes()[at:][:c.Length()]
	return []rdmatransport.SGE{{Buf: b, LKey: q.liar.arena.LKey()}}
}

// data is what came with a command.
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
		c.Respond(0, capsule.ConnectResponse{CNTLID: l.cntlid, ATR: l.atr}.Result())
	case capsule.FabricsAuthReceive:
		pieces := q.piece(c)
		clear(pieces[0].Buf)
		l.proof(pieces[0].Buf)
		c.RespondData(pieces, 0)
	case capsule.FabricsPropertyGet:
		switch capsule.PropertyOffset(c.SQE.Property().Offset) {
		case capsule.PropertyCAP:
			c.Respond(0, uint64(l.cap.CAP()))
		case capsule.PropertyCSTS:
			c.Respond(0, uint64(l.csts.WithShutdown(capsule.ShutdownComplete)))
		default:
			c.Respond(0, 0x20000)
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
		}
		if !answer {
			q.held = append(q.held, c)
			return
		}
		c.Respond(0, result)
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
	c.RespondData(pieces, 0)
}

func (q *liarQueue) identify(c *fabric.Command, b []byte) {
	l := q.liar
	switch c.SQE.Identify().CNS {
	case capsule.CNSController:
		id := capsule.IdentifyController{
			CNTLID: l.cntlid, CNTRLTYPE: capsule.ControllerTypeIO, KAS: 1, SQES: 0x66, CQES: 0x44, MAXCMD: 128,
			SGLS: capsule.SGLSSupported | capsule.SGLSKeyed | capsule.SGLSOffset, IOCCSZ: 4 + 64, IORCSZ: 1,
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
	case capsule.CNSActiveNamespaces:
		capsule.PutNamespaceList(b, l.nsids)
	}
}

func (q *liarQueue) Fetched(c *fabric.Command) {
	if q.id != 0 && c.SQE.Opcode != capsule.OpcodeFabrics {
		q.liar.io(q, c)
		return
	}
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

// wantRefused requires that no connection comes about, for the reason named.
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

// TestHonestLiar: the fake itself is acceptable, so that refusals have a reason.
func TestHonestLiar(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		c, err := l.host.Connect(context.Background(), l.options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Namespace(context.Background(), 1); err != nil {
			t.Error(err)
		}
		if c.IOQueues() != 2 || c.QueueDepth() != 128 || c.MaxTransfer() != 1<<20 {
			t.Errorf("%d queues of %d, transfers of %d", c.IOQueues(), c.QueueDepth(), c.MaxTransfer())
		}
		if err := c.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestConnectionAnswers is row 100 and the rejections in words.
func TestConnectionAnswers(t *testing.T) {
	recfmt := make([]byte, capsule.AcceptDataSize)
	capsule.AcceptData{RECFMT: 5, CRQSIZE: 32}.Encode(recfmt)
	cases := []struct {
		name string
		lie  func(*liar)
		want string
	}{
		{"record format", func(l *liar) { l.reject = capsule.RejectInvalidRECFMT }, "invalid record format (NVMe status 2)"},
		{"no resources", func(l *liar) { l.reject = capsule.RejectNoResources }, "no resources (NVMe status 6)"},
		{"unknown status", func(l *liar) { l.reject = 999 }, "reject status 999"},
		{"controller 0", func(l *liar) { l.cntlid = 0 }, "reserved identifier 0x0"},
		{"controller FFF0h", func(l *liar) { l.cntlid = 0xfff0 }, "reserved identifier 0xfff0"},
		{"large pages", func(l *liar) { l.cap.MPSMIN = 4 }, "pages of 65536 bytes"},
		{"fatal", func(l *liar) { l.csts = capsule.CSTSFatal }, "fatal error"},
		{"never ready", func(l *liar) { l.csts = 0 }, "not ready after 500ms"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLiar(t)
				c.lie(l)
				l.wantRefused(l.options(), c.want)
			})
		})
	}
}

// TestIdentifyLies is row 101.
func TestIdentifyLies(t *testing.T) {
	type id = *capsule.IdentifyController
	cases := []struct {
		name string
		lie  func(id)
		want string // empty: clamped
	}{
		{"another CNTLID", func(i id) { i.CNTLID = 8 }, "it is 8 in Identify data, but 7"},
		{"no keyed SGLs", func(i id) { i.SGLS = 1 }, "keyed SGLs"},
		{"IOCCSZ 3", func(i id) { i.IOCCSZ = 3 }, "too few for a command"},
		{"IORCSZ 0", func(i id) { i.IORCSZ = 0 }, "too few for a completion"},
		{"ICDOFF 1", func(i id) { i.ICDOFF = 1 }, "in-capsule data at offset"},
		{"no keep alive", func(i id) { i.KAS = 0 }, "does not support keep alive"},
		{"SQES", func(i id) { i.SQES = 0x77 }, "submission queue entries"},
		{"MDTS 255", func(i id) { i.MDTS = 255 }, ""},
		{"MAXCMD 0", func(i id) { i.MAXCMD = 0 }, ""},
		{"MAXCMD 1", func(i id) { i.MAXCMD = 1 }, ""},
		{"IOCCSZ huge", func(i id) { i.IOCCSZ = 0xffffffff }, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLiar(t)
				l.identify = c.lie
				if c.want != "" {
					l.wantRefused(l.options(), c.want)
					return
				}
				controller, err := l.host.Connect(context.Background(), l.options())
				if err != nil {
					t.Fatal(err)
				}
				if m := controller.limits; m.write < 4096 || m.write > 1<<20 || m.inCapsule < 0 || m.inCapsule > 16<<10 || controller.QueueDepth() < 2 {
					t.Errorf("limits %+v, depth %d", m, controller.QueueDepth())
				}
			})
		})
	}
}

func TestNamespaceLies(t *testing.T) {
	type id = *capsule.IdentifyNamespace
	cases := []struct {
		name string
		lie  func(id)
		want string
	}{
		{"LBADS 0", func(n id) { n.LBAF[0].LBADS = 0 }, "blocks of 2^0"},
		{"LBADS 8", func(n id) { n.LBAF[0].LBADS = 8 }, "blocks of 2^8"},
		{"LBADS 33", func(n id) { n.LBAF[0].LBADS = 33 }, "blocks of 2^33"},
		{"LBADS 255", func(n id) { n.LBAF[0].LBADS = 255 }, "blocks of 2^255"},
		{"NSZE 2^64-1", func(n id) { n.NSZE = ^uint64(0) }, "more than 8 EiB"},
		{"NSZE 0", func(n id) { n.NSZE = 0 }, "not active"},
		{"metadata", func(n id) { n.LBAF[0].MS = 8 }, "8 bytes of metadata"},
	}
	for _, c := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.ns = c.lie
			controller, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := controller.Namespace(context.Background(), 1); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.nsids = []capsule.NSID{5, 5}
		controller, err := l.host.Connect(context.Background(), l.options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := controller.Namespaces(context.Background()); err == nil || !strings.Contains(err.Error(), "does not ascend") {
			t.Errorf("a list that does not ascend: %v", err)
		}
	})
}

// TestDiscoveryLies is row 102.
func TestDiscoveryLies(t *testing.T) {
	generation := uint64(0)
	cases := []struct {
		name string
		log  func(off uint64, b []byte)
		want string
	}{
		{"2^63 entries", func(_ uint64, b []byte) { capsule.DiscoveryHeader{NUMREC: 1 << 63}.Encode(b) }, "this host takes 4096"},
		{"record format", func(_ uint64, b []byte) { capsule.DiscoveryHeader{RECFMT: 1}.Encode(b) }, "record format 1"},
		{"changing for ever", func(_ uint64, b []byte) {
			generation++
			capsule.DiscoveryHeader{GENCTR: generation}.Encode(b)
		}, "each of 10 attempts"},
	}
	for _, c := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(i *capsule.IdentifyController) { *i = capsule.IdentifyController{CNTLID: l.cntlid, SGLS: i.SGLS} }
			l.log = c.log
			_, err := l.host.Discover(context.Background(), Options{Traddr: l.addr.Addr()})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		})
	}
}

// TestSilence is row 103: whatever gets no answer ends in time, and nothing is
// left behind.
func TestSilence(t *testing.T) {
	cases := map[string]func(*capsule.Command) bool{
		"Connect": func(c *capsule.Command) bool {
			return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsConnect
		},
		"Connect of an I/O queue": func(c *capsule.Command) bool {
			return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsConnect && c.Connect().QID == 2
		},
		"Property Get": func(c *capsule.Command) bool {
			return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertyGet
		},
		"Identify": func(c *capsule.Command) bool { return capsule.AdminOpcode(c.Opcode) == capsule.AdminIdentify },
	}
	for name, silent := range cases {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.silent = silent
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := l.host.Connect(ctx, l.options()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("no answer to %s: %v, want the deadline's end", name, err)
			}
			o := l.options()
			o.Timeout = 2 * time.Second
			start := time.Now()
			if _, err := l.host.Connect(context.Background(), o); !errors.Is(err, fabric.ErrTimeout) {
				t.Errorf("no answer to %s: %v, want %v", name, err, fabric.ErrTimeout)
			}
			if d := time.Since(start); d > 4*time.Second {
				t.Errorf("no answer to %s was noticed after %v", name, d)
			}
		})
	}
}

// TestKeepAliveUnanswered: the controller is given up after KATO.
func TestKeepAliveUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.silent = func(c *capsule.Command) bool { return capsule.AdminOpcode(c.Opcode) == capsule.AdminKeepAlive }
		o := l.options()
		o.KeepAliveTmo = 4 * time.Second
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-c.Done()
		if d := time.Since(start); d < 4*time.Second || d > 9*time.Second {
			t.Errorf("controller was given up after %v, KATO is 4 s", d)
		}
		if !errors.Is(c.Err(), ErrKeepAlive) {
			t.Errorf("controller was given up for %v, want %v", c.Err(), ErrKeepAlive)
		}
	})
}

// TestNoKeepAliveInShutdown: a controller that takes its time to shut down, as it does
// where the network loses packets, gets no command that it could only refuse.
func TestNoKeepAliveInShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		var shutting bool
		var late atomic.Int32
		l.silent = func(c *capsule.Command) bool {
			switch {
			case capsule.AdminOpcode(c.Opcode) == capsule.AdminKeepAlive && shutting:
				late.Add(1)
			case c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertySet:
				shutting = capsule.CC(c.Property().Value).Shutdown() != capsule.ShutdownNone
			case c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertyGet:
				return shutting // CSTS
			}
			return false
		}
		o := l.options()
		o.KeepAliveTmo = 2 * time.Second
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Disconnect(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed: %v, want a deadline", err)
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d keep alives after the shutdown began", n)
		}
	})
}
