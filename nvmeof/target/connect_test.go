package target

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nvmeof-go/nvmeof/capsule"
)

const dnr = capsule.StatusDNR

// A connectCase is one row of the bad input catalogue: the difference of a Connect command from a valid one, and
// the result.
type connectCase struct {
	name   string
	fields func(*capsule.Connect)
	data   func(*capsule.ConnectData)
	want   capsule.Status
	at     capsule.InvalidParameter
	reason string // in the log
}

func nqnField[S ~string](s S) (f capsule.NQNField) {
	copy(f[:], s)
	return f
}

var adminConnectCases = []connectCase{
	{name: "35 SUBNQN without NUL", want: capsule.StatusConnectInvalidParam | dnr, at: badSubNQN, reason: "terminating NUL",
		data: func(d *capsule.ConnectData) { d.SubNQN = nqnField(strings.Repeat("n", 256)) }},
	{name: "35 HOSTNQN without NUL", want: capsule.StatusConnectInvalidParam | dnr, at: badHostNQN, reason: "terminating NUL",
		data: func(d *capsule.ConnectData) { d.HostNQN = nqnField(strings.Repeat("n", 256)) }},
	{name: "35 HOSTNQN of 224 bytes", want: capsule.StatusConnectInvalidParam | dnr, at: badHostNQN, reason: "longer",
		data: func(d *capsule.ConnectData) { d.HostNQN = nqnField(strings.Repeat("n", 224)) }},
	{name: "35 SUBNQN empty", want: capsule.StatusConnectInvalidParam | dnr, at: badSubNQN, reason: "empty",
		data: func(d *capsule.ConnectData) { d.SubNQN = nqnField("") }},
	{name: "35 HOSTNQN with control characters", want: capsule.StatusConnectInvalidParam | dnr, at: badHostNQN, reason: "printable",
		data: func(d *capsule.ConnectData) { d.HostNQN = nqnField("nqn.\x1b[2J\n") }},
	{name: "35 SUBNQN not UTF-8", want: capsule.StatusConnectInvalidParam | dnr, at: badSubNQN, reason: "printable",
		data: func(d *capsule.ConnectData) { d.SubNQN = nqnField("nqn.\xff") }},
	{name: "35 SUBNQN of 224 bytes", want: capsule.StatusConnectInvalidParam | dnr, at: badSubNQN, reason: "longer",
		data: func(d *capsule.ConnectData) { d.SubNQN = nqnField(strings.Repeat("n", 224)) }},
	{name: "35 HOSTNQN empty", want: capsule.StatusConnectInvalidHost | dnr, at: badHostNQN, reason: "hostnqn:NQN",
		data: func(d *capsule.ConnectData) { d.HostNQN = nqnField("") }},
	{name: "35 SUBNQN with control characters", want: capsule.StatusConnectInvalidParam | dnr, at: badSubNQN, reason: "printable",
		data: func(d *capsule.ConnectData) { d.SubNQN = nqnField("nqn.\x1b[2J\n") }},
	{name: "35 HOSTNQN not UTF-8", want: capsule.StatusConnectInvalidParam | dnr, at: badHostNQN, reason: "printable",
		data: func(d *capsule.ConnectData) { d.HostNQN = nqnField("nqn.\xff") }},
	{name: "36 RECFMT", want: capsule.StatusConnectIncompatibleFormat | dnr, reason: "record format",
		fields: func(c *capsule.Connect) { c.RECFMT = 1 }},
	{name: "38 CNTLID not dynamic", want: capsule.StatusConnectInvalidParam | dnr, at: badCNTLID, reason: "FFFFh",
		data: func(d *capsule.ConnectData) { d.CNTLID = 1 }},
	{name: "41 SQSIZE 0", want: capsule.StatusConnectInvalidParam | dnr, at: badSQSIZE, reason: "queue size",
		fields: func(c *capsule.Connect) { c.SQSIZE = 0 }},
	{name: "41 SQSIZE above HSQSIZE", want: capsule.StatusConnectInvalidParam | dnr, at: badSQSIZE, reason: "queue size",
		fields: func(c *capsule.Connect) { c.SQSIZE = 32 }},
	{name: "41 SQSIZE FFFFh", want: capsule.StatusConnectInvalidParam | dnr, at: badSQSIZE, reason: "queue size",
		fields: func(c *capsule.Connect) { c.SQSIZE = 0xffff }},
	{name: "42 QID of another queue", want: capsule.StatusConnectInvalidParam | dnr, at: badQID, reason: "queue identifier",
		fields: func(c *capsule.Connect) { c.QID = 1 }},
	{name: "43 host not allowed", want: capsule.StatusConnectInvalidHost | dnr, at: badHostNQN, reason: "not allowed",
		data: func(d *capsule.ConnectData) { d.HostNQN = nqnField("nqn.2026-11.io.example:stranger") }},
	{name: "43 host identifier zero", want: capsule.StatusConnectInvalidHost | dnr, at: badHostID, reason: "zero",
		data: func(d *capsule.ConnectData) { d.HostID = capsule.HostID{} }},
	{name: "43 unknown subsystem", want: capsule.StatusConnectInvalidParam | dnr, at: badSubNQN, reason: "no such subsystem",
		data: func(d *capsule.ConnectData) { d.SubNQN = nqnField("nqn.2026-11.io.example:nothing") }},
}

// run sends the Connect command on a queue with that QID and checks the result and the log.
func (c connectCase) run(t *testing.T, f *fixture, qid capsule.QID, fields capsule.Connect, d capsule.ConnectData) {
	if c.fields != nil {
		c.fields(&fields)
	}
	if c.data != nil {
		c.data(&d)
	}
	h := f.dial(qid, 1, 32)
	f.logs.TakeAll()
	r := h.wantStatus(c.want, connectCommand(fields, d))
	if got := capsule.ParseInvalidParameter(r.result); got != c.at {
		t.Errorf("invalid parameter %+v, want %+v", got, c.at)
	}
	var lines []string
	for _, e := range f.logs.FilterMessage("connect refused").All() {
		line := e.Message
		for k, v := range e.ContextMap() {
			if s, ok := v.(string); ok {
				line += " " + k + "=" + s
			}
		}
		lines = append(lines, line)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "connect refused") || !strings.Contains(lines[0], c.reason) {
		t.Errorf("logged %q, want one line with %q", lines, c.reason)
	}
	if all := strings.Join(lines, ""); strings.ContainsAny(all, "\x1b\n") || !utf8.ValidString(all) {
		t.Errorf("log has the host's bytes as they came: %q", lines)
	}
	h.lose()
}

// TestBadAdminConnect is rows 35, 36, 38 and 41 to 43.
func TestBadAdminConnect(t *testing.T) {
	for _, c := range adminConnectCases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			c.run(t, f, 0, capsule.Connect{SQSIZE: 31}, connectData())
			f.connectAdmin(0) // others are not affected
		})
	}
}

// TestBadIOConnect is rows 37, 39 and 41. A queue whose identifier is in use may be retried, since the old queue
// is ended for it, hence without Do Not Retry. A host whose controller has ended meanwhile creates another one,
// hence without Do Not Retry too.
func TestBadIOConnect(t *testing.T) {
	for _, c := range []connectCase{
		{name: "39 unknown controller", want: capsule.StatusConnectInvalidParam, at: badCNTLID, reason: "no such controller",
			data: func(d *capsule.ConnectData) { d.CNTLID ^= 0x55 }},
		{name: "39 controller of another host", want: capsule.StatusConnectInvalidParam, at: badHostNQN, reason: "another host",
			data: func(d *capsule.ConnectData) { d.HostNQN = nqnField("nqn.2026-11.io.example:other") }},
		{name: "39 other host identifier", want: capsule.StatusConnectInvalidParam, at: badHostID, reason: "another host",
			data: func(d *capsule.ConnectData) { d.HostID[5] = 9 }},
		{name: "37 QID in use", want: capsule.StatusConnectInvalidParam, at: badQID, reason: "in use",
			fields: func(*capsule.Connect) {}},
		{name: "41 SQSIZE 0", want: capsule.StatusConnectInvalidParam | dnr, at: badSQSIZE, reason: "queue size",
			fields: func(c *capsule.Connect) { c.SQSIZE = 0 }},
		{name: "41 SQSIZE above HSQSIZE", want: capsule.StatusConnectInvalidParam | dnr, at: badSQSIZE, reason: "queue size",
			fields: func(c *capsule.Connect) { c.SQSIZE = 32 }},
		{name: "41 SQSIZE above CAP.MQES", want: capsule.StatusConnectInvalidParam | dnr, at: badSQSIZE, reason: "queue size",
			fields: func(c *capsule.Connect) { c.SQSIZE = 128 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.sub.AllowHost("nqn.2026-11.io.example:other")
			_, id := f.connectAdmin(0)
			f.connectIO(id, 1, 1)
			d := connectData()
			d.CNTLID = id
			c.run(t, f, 1, capsule.Connect{QID: 1, SQSIZE: 31}, d)
		})
	}
}

// TestConnectOfAReplacedQueue is row 37: the old queue with the identifier is ended, so that the next attempt
// succeeds.
func TestConnectOfAReplacedQueue(t *testing.T) {
	f := newFixture(t)
	_, id := f.connectAdmin(0)
	old := f.connectIO(id, 1, 0)
	d := connectData()
	d.CNTLID = id
	second := f.dial(1, 1, 128)
	second.wantStatus(capsule.StatusConnectInvalidParam, connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	<-old.closed
	second.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
}

// TestReconnectBeforeCleanupEnds is row 37 if the old queue cannot end at once: its identifier is free as soon as
// the store has completed its write, and not before.
func TestReconnectBeforeCleanupEnds(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, id := f.connectAdmin(0)
	old := f.connectIO(id, 1, 0)
	s.set(true, nil)
	old.start(writeOf(2))
	f.within(old, "the store has it", func() bool { return s.inFlight() == 1 })
	d := connectData()
	d.CNTLID = id
	second := f.dial(1, 1, 128)
	again := func(want capsule.Status) {
		t.Helper()
		second.wantStatus(want, connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	}
	for range 3 {
		again(capsule.StatusConnectInvalidParam)
	}
	s.set(false, nil)
	<-old.closed
	again(capsule.StatusSuccess)
	second.wantOK(readOf(2))
}

// TestIOConnectThroughAnotherPort is row 39: a controller belongs to one port.
func TestIOConnectThroughAnotherPort(t *testing.T) {
	f := newFixture(t)
	first, other := f.listen("192.0.2.1:4420"), f.listen("192.0.2.1:4421")
	a := f.associate(testHostNQN, first)
	d := dataOf(f.sub.nqn, testHostNQN)
	d.CNTLID = a.id
	for at, want := range map[*Listener]capsule.Status{other: capsule.StatusConnectInvalidParam, first: capsule.StatusSuccess} {
		f.at = at
		r := f.dial(2, 0, 128).wantStatus(want, connectCommand(capsule.Connect{QID: 2, SQSIZE: 127}, d))
		if p := capsule.ParseInvalidParameter(r.result); !want.OK() && p != badCNTLID {
			t.Errorf("invalid parameter %+v", p)
		}
	}
	a.io.wantOK(readOf(1))
}

// TestIOCommandBeforeReady is row 73: there is no I/O queue before CSTS.RDY, so a command on one finds it
// unconnected; nor is there after a reset, which ends it.
func TestIOCommandBeforeReady(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	d := connectData()
	d.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io := f.dial(1, 1, 128)
	for range 2 {
		io.wantStatus(capsule.StatusConnectInvalidParam|dnr, connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
		io.wantStatus(capsule.StatusCommandSequence|dnr, readOf(1))
		io.wantStatus(capsule.StatusCommandSequence|dnr, writeOf(1))
		h.setCC(linuxCC.WithEnable(true))
		old := f.connectIO(d.CNTLID, 2, 0)
		old.wantOK(readOf(1))
		h.setCC(linuxCC)
		<-old.closed
	}
}

// TestIOConnectNeedsAnEnabledController is row 40.
func TestIOConnectNeedsAnEnabledController(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	d := connectData()
	d.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	connectIO := func(want capsule.Status) {
		t.Helper()
		io := f.dial(1, 1, 128)
		io.wantStatus(want, connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	}
	invalid := capsule.StatusConnectInvalidParam | dnr
	connectIO(invalid) // row 40: before CC.EN
	h.setCC(linuxCC.WithEnable(true))
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	connectIO(invalid) // during shutdown
	h.setCC(0)
	h.setCC(linuxCC.WithEnable(true))
	connectIO(capsule.StatusSuccess)
	h.lose()
	connectIO(capsule.StatusConnectInvalidParam) // the association has ended: the host creates a new one
}

// TestIOConnectToADiscoveryController is row 40.
func TestIOConnectToADiscoveryController(t *testing.T) {
	f := newFixture(t)
	d := connectData()
	d.SubNQN = nqnField(capsule.DiscoveryNQN)
	h := f.dial(0, 0, 32)
	r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	h.setCC(linuxCC.WithEnable(true))
	d.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io := f.dial(1, 1, 128)
	io.wantStatus(capsule.StatusConnectInvalidParam|dnr, connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
}

// TestQIDAboveTheNumberGranted is row 42.
func TestQIDAboveTheNumberGranted(t *testing.T) {
	f := newFixture(t)
	h, id := f.connectAdmin(0)
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues, Value: 0x10001}, nil))
	d := connectData()
	d.CNTLID = id
	io := f.dial(3, 1, 128)
	r := io.wantStatus(capsule.StatusConnectInvalidParam|dnr, connectCommand(capsule.Connect{QID: 3, SQSIZE: 127}, d))
	if p := capsule.ParseInvalidParameter(r.result); p != badQID {
		t.Errorf("invalid parameter %+v", p)
	}
	f.connectIO(id, 2, 1)
}

// TestSameHostWithTwoIdentifiers is row 43.
func TestSameHostWithTwoIdentifiers(t *testing.T) {
	f := newFixture(t)
	f.connectAdmin(0)
	d := connectData()
	d.HostID[15] = 0xee
	h := f.dial(0, 0, 32)
	h.wantStatus(capsule.StatusConnectInvalidHost, connectCommand(capsule.Connect{SQSIZE: 31}, d))
	f.connectAdmin(0) // the same identifier again is another association
}

// TestConnectTwiceOnAQueue is row 37: the first Connect stays valid.
func TestConnectTwiceOnAQueue(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	for _, q := range []*hostQueue{h, io} {
		q.wantStatus(capsule.StatusCommandSequence|dnr, connectCommand(capsule.Connect{QID: q.q.id, SQSIZE: 31}, connectData()))
	}
	h.property(capsule.PropertyCSTS)
	io.wantOK(readOf(1))
}

// TestConnectDataLength is row 34.
func TestConnectDataLength(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	for _, n := range []int{0, 512, 1023, 1025, 4096} {
		c := connectCommand(capsule.Connect{SQSIZE: 31}, connectData())
		c.memory = make([]byte, n)
		h.wantStatus(capsule.StatusSGLDataLength|dnr, c)
	}
	c := connectCommand(capsule.Connect{SQSIZE: 31}, connectData())
	c.memory, c.inCapsule = nil, c.memory
	h.wantOK(c) // in the capsule, on the admin queue too
}

func TestConnectWithoutFlowControl(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31, CATTR: capsule.ConnectNoFlowControl}, connectData()))
	if !h.noFlow {
		t.Error("flow control is still on")
	}
}

// TestControllerIdentifiersRunOut is row 92.
func TestControllerIdentifiersRunOut(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxControllers = 2 })
	first, a := f.connectAdmin(0)
	_, b := f.connectAdmin(0)
	if a == b {
		t.Errorf("two controllers have identifier %d", a)
	}
	h := f.dial(0, 0, 32)
	h.wantStatus(capsule.StatusConnectControllerBusy, connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	first.lose()
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
}

// TestCommandsBeforeConnect is row 33: they fail, and the queue can still be connected.
func TestCommandsBeforeConnect(t *testing.T) {
	f := newFixture(t)
	for _, qid := range []capsule.QID{0, 1} {
		h := f.dial(qid, 0, 32)
		for _, c := range []*hostCommand{
			adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 1}, make([]byte, 4096)),
			adminCommand(capsule.AdminKeepAlive, nil, nil),
			ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)),
			fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: 8}),
			fabricsCommand(capsule.FabricsDisconnect, nil),
			fabricsCommand(capsule.FabricsAuthSend, capsule.Auth{SPSP0: 1, SPSP1: 1, SECP: capsule.SecurityProtocol, Length: 8}),
			fabricsCommand(capsule.FabricsAuthReceive, capsule.Auth{SPSP0: 1, SPSP1: 1, SECP: capsule.SecurityProtocol, Length: 8}),
		} {
			h.wantStatus(capsule.StatusCommandSequence|dnr, c)
		}
		if qid == 0 {
			h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
		}
	}
	if n := len(f.target.Controllers()); n != 1 {
		t.Errorf("%d controllers, want the one of the Connect", n)
	}
}

// TestDiscoveryIsOpenToStrangers is row 43: a host that no subsystem allows can still read its log.
func TestDiscoveryIsOpenToStrangers(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	entries, _ := f.connectDiscovery("nqn.2026-11.io.example:stranger").discover()
	if len(entries) != 1 || !entries[0].SubNQN.Is(capsule.DiscoveryNQN) {
		t.Errorf("the log of a host that is allowed nowhere has %d subsystems, want the discovery subsystem alone", len(entries))
	}
}

func TestAllowAnyHost(t *testing.T) {
	f := newFixture(t)
	f.sub.RemoveHost(testHostNQN)
	h := f.dial(0, 0, 32)
	h.wantStatus(capsule.StatusConnectInvalidHost|dnr, connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	f.sub.AllowAnyHost(true)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	nameless := connectData() // like those of spdk_nvme_perf
	nameless.HostNQN = nqnField("")
	for i := range byte(2) {
		nameless.HostID = capsule.HostID{9, i}
		f.dial(0, 0, 32).wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, nameless))
	}
}

// TestLargeAdminQueue: SPDK hosts may be configured to have one.
func TestLargeAdminQueue(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.QueueDepth = 16 })
	h := f.dial(0, 0, 128)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 127}, connectData()))
}
