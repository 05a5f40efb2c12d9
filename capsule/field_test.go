package capsule_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestInRangeAgreesWithUnboundedArithmetic(t *testing.T) {
	edges := []uint64{0, 1, 2, 3, 511, 512, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() uint64 {
		if rng.IntN(2) == 0 {
			return edges[rng.IntN(len(edges))] + uint64(rng.IntN(5)) - 2
		}
		return rng.Uint64()
	}
	for range 20000 {
		off, n, size := pick(), pick(), pick()
		end := new(big.Int).Add(new(big.Int).SetUint64(off), new(big.Int).SetUint64(n))
		want := end.Cmp(new(big.Int).SetUint64(size)) <= 0
		if got := capsule.InRange(off, n, size); got != want {
			t.Fatalf("InRange(%d, %d, %d) = %v", off, n, size, got)
		}
	}
}

func TestOpcodeTables(t *testing.T) {
	admin, io, fabrics := 0, 0, 0
	for i := range 256 {
		if o := capsule.AdminOpcode(i); o.Known() {
			admin++
		} else if !strings.HasPrefix(o.String(), "admin opcode 0x") {
			t.Errorf("unknown admin opcode is called %q", o)
		}
		if o := capsule.IOOpcode(i); o.Known() {
			io++
		}
		if o := capsule.FabricsType(i); o.Known() {
			fabrics++
		}
	}
	if admin != 30 || io != 15 || fabrics != 6 {
		t.Errorf("%d admin, %d I/O opcodes and %d fabrics types are known", admin, io, fabrics)
	}
}

func TestDirections(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want capsule.Direction
	}{
		{"Identify", capsule.AdminIdentify.Direction(), capsule.ControllerToHost},
		{"Get Log Page", capsule.AdminGetLogPage.Direction(), capsule.ControllerToHost},
		{"Set Features", capsule.AdminSetFeatures.Direction(), capsule.HostToController},
		{"Keep Alive", capsule.AdminKeepAlive.Direction(), capsule.NoData},
		{"Read", capsule.IORead.Direction(), capsule.ControllerToHost},
		{"Write", capsule.IOWrite.Direction(), capsule.HostToController},
		{"Flush", capsule.IOFlush.Direction(), capsule.NoData},
		{"Write Zeroes", capsule.IOWriteZeroes.Direction(), capsule.NoData},
		{"Dataset Management", capsule.IODatasetManagement.Direction(), capsule.HostToController},
		{"Connect", capsule.FabricsConnect.Direction(), capsule.HostToController},
		{"Property Get", capsule.FabricsPropertyGet.Direction(), capsule.NoData},
		{"Authentication Receive", capsule.FabricsAuthReceive.Direction(), capsule.ControllerToHost},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestStatusParts(t *testing.T) {
	s := capsule.StatusConnectInvalidParam | capsule.StatusDNR
	if s.SCT() != 1 || s.SC() != 0x82 || !s.DNR() || s.OK() || s.Code() != capsule.StatusConnectInvalidParam {
		t.Errorf("%v: SCT %d SC %#x", s, s.SCT(), s.SC())
	}
	if !strings.Contains(s.String(), "(1/82, DNR)") {
		t.Errorf("status reads %q", s)
	}
	if got := capsule.Status(0x7ff).String(); got != "status (7/ff)" {
		t.Errorf("unknown status reads %q", got)
	}
	// On the wire the phase tag is below the status: 0/02 with DNR is 8004h.
	b := make([]byte, 16)
	c := capsule.Completion{Status: capsule.StatusInvalidField | capsule.StatusDNR}
	c.Encode(b)
	if b[14] != 0x04 || b[15] != 0x80 {
		t.Errorf("status field % x, want 04 80", b[14:])
	}
}

func TestClassifySGL(t *testing.T) {
	raw := func(id byte, length uint32) capsule.SGL {
		b := make([]byte, 16)
		b[8], b[9], b[10], b[15] = byte(length), byte(length>>8), byte(length>>16), id
		s, err := capsule.DecodeSGL(b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		id     byte
		length uint32
		kind   capsule.SGLKind
		status capsule.Status
	}{
		{0x40, 512, capsule.SGLKindKeyed, 0},
		{0x40, 0, capsule.SGLKindNone, 0},
		{0x4f, 512, capsule.SGLKindKeyedInvalidate, 0},
		{0x41, 512, capsule.SGLKindInvalid, capsule.StatusInvalidField},
		{0x01, 512, capsule.SGLKindInCapsule, 0},
		{0x00, 512, capsule.SGLKindInvalid, capsule.StatusInvalidField},
		{0x31, 64, capsule.SGLKindLastSegment, 0},
		{0x30, 64, capsule.SGLKindInvalid, capsule.StatusInvalidField},
		{0x10, 64, capsule.SGLKindInvalid, capsule.StatusSGLTypeInvalid},
		{0x21, 64, capsule.SGLKindInvalid, capsule.StatusSGLTypeInvalid},
		{0x50, 64, capsule.SGLKindInvalid, capsule.StatusSGLTypeInvalid},
		{0xf0, 64, capsule.SGLKindInvalid, capsule.StatusSGLTypeInvalid},
	} {
		kind, status := raw(c.id, c.length).Classify()
		if kind != c.kind || status != c.status {
			t.Errorf("descriptor %#02x length %d: kind %d, %v; want kind %d, %v", c.id, c.length, kind, status, c.kind, c.status)
		}
	}
	s := capsule.KeyedSGL(0x1122334455667788, 0xabcdef, 0x12345678, true)
	if s.Length() != 0xabcdef || s.Key() != 0x12345678 || s.Address != 0x1122334455667788 {
		t.Errorf("keyed descriptor gives %#x, %#x, %#x", s.Address, s.Length(), s.Key())
	}
	if n := capsule.InCapsuleSGL(0, math.MaxUint32).Length(); n != math.MaxUint32 {
		t.Errorf("in-capsule length %#x", n)
	}
}

// put is the method of every typed form of a command's fields.
type put interface{ Put(*capsule.Command) }

func TestTypedFieldsSurviveACommand(t *testing.T) {
	read := map[string]func(*capsule.Command) any{
		"ReadWrite":         func(c *capsule.Command) any { return c.ReadWrite() },
		"DatasetManagement": func(c *capsule.Command) any { return c.DatasetManagement() },
		"Identify":          func(c *capsule.Command) any { return c.Identify() },
		"GetLogPage":        func(c *capsule.Command) any { return c.GetLogPage() },
		"Abort":             func(c *capsule.Command) any { return c.Abort() },
		"GetFeatures":       func(c *capsule.Command) any { return c.GetFeatures() },
		"SetFeatures":       func(c *capsule.Command) any { return c.SetFeatures() },
		"Connect":           func(c *capsule.Command) any { return c.Connect() },
		"Property":          func(c *capsule.Command) any { return c.Property() },
		"Auth":              func(c *capsule.Command) any { return c.Auth() },
	}
	for _, want := range []put{
		capsule.ReadWrite{SLBA: 0x123456789abc, Blocks: 65536, LR: true, FUA: true, PRINFO: 9, STC: true, DEAC: true, DTYPE: 5, DSM: 0x77, DSPEC: 0x8899},
		capsule.ReadWrite{Blocks: 1},
		capsule.DatasetManagement{Ranges: 256, Read: true, Deallocate: true},
		capsule.Identify{CNS: 0x1c, CNTID: 0xffef, CNSSID: 3, CSI: 2, UUID: 0x7f},
		capsule.GetLogPage{LID: 0x70, LSP: 0x7f, RAE: true, Length: 1 << 34, LSI: 9, LPO: 1<<63 + 5, UUID: 1, OT: true, CSI: 2},
		capsule.GetLogPage{Length: 4},
		capsule.Abort{SQID: 3, CID: 0xffff},
		capsule.GetFeatures{FID: 0x81, Select: 3, Value: 1},
		capsule.SetFeatures{FID: 7, Save: true, Value: 0x7f007f},
		capsule.Connect{RECFMT: 1, QID: 4, SQSIZE: 127, CATTR: capsule.ConnectNoFlowControl, KATO: math.MaxUint32},
		capsule.Property{Size: 8, Offset: 0x28, Value: math.MaxUint64},
		capsule.Property{Size: 4, Offset: 0x14},
		capsule.Auth{SPSP0: 1, SPSP1: 2, SECP: 0xe9, Length: 4096},
	} {
		var c capsule.Command
		want.Put(&c)
		if got := read[reflect.TypeOf(want).Name()](&c); got != want {
			t.Errorf("put %+v, read %+v", want, got)
		}
	}
}

func TestPropertiesOfTheCaptures(t *testing.T) {
	// CAP and CC as reported by nvmet and written by Linux.
	cap := capsule.CAP(0x8200f00007f)
	f := cap.Fields()
	if f.MQES != 127 || f.TO != 15 || f.CSS != capsule.CSSNVM|capsule.CSSMany || f.CQR || f.CAP() != cap {
		t.Errorf("CAP %#x is %+v", uint64(cap), f)
	}
	cc := capsule.CC(0x460061)
	if !cc.Enable() || cc.CSS() != capsule.CCCSSAll || cc.MPS() != 0 || cc.IOSQES() != 6 || cc.IOCQES() != 4 || cc.Shutdown() != 0 {
		t.Errorf("CC %#x", uint32(cc))
	}
	if got := capsule.CC(0).WithEnable(true).WithCSS(6).WithEntrySizes(6, 4); got != cc {
		t.Errorf("CC built as %#x", uint32(got))
	}
	if got := cc.WithShutdown(capsule.ShutdownNormal); got != 0x464061 || got.Shutdown() != capsule.ShutdownNormal {
		t.Errorf("CC with shutdown %#x", uint32(got))
	}
	if s := capsule.CSTS(8); s.Shutdown() != capsule.ShutdownComplete || s.Ready() || capsule.CSTS(0).WithShutdown(capsule.ShutdownComplete) != s {
		t.Errorf("CSTS %#x", uint32(s))
	}
	full := capsule.CAPFields{MQES: 0xffff, CQR: true, AMS: 3, TO: 255, DSTRD: 15, NSSRS: true, CSS: 255, MPSMIN: 15, MPSMAX: 15, CRMS: 3}
	if full.CAP().Fields() != full {
		t.Errorf("CAP %+v becomes %+v", full, full.CAP().Fields())
	}
}

func TestResults(t *testing.T) {
	// From nvme-badconnect: the subsystem NQN at offset 256 of the data.
	if p := capsule.ParseInvalidParameter(0x10100); p.Offset != capsule.ConnectOffsetSubNQN || p.In != capsule.InvalidInData || p.Result() != 0x10100 {
		t.Errorf("invalid parameter %+v", p)
	}
	r := capsule.ConnectResponse{CNTLID: 7, ATR: true}
	if r.Result() != 0x20007 || capsule.ParseConnectResponse(r.Result()) != r {
		t.Errorf("connect response %#x", r.Result())
	}
	e := capsule.AsyncEvent{Type: capsule.EventTypeNotice, Info: capsule.NoticeNamespaceChanged, LID: capsule.LogChangedNamespaces}
	if e.Value() != 0x040002 || capsule.ParseAsyncEvent(e.Value()) != e {
		t.Errorf("event %#x", e.Value())
	}
	q := capsule.QueueCounts{Submission: 1, Completion: 128}
	if q.Value() != 0x7f0000 || capsule.ParseQueueCounts(q.Value()) != q {
		t.Errorf("queues %#x", q.Value())
	}
}
