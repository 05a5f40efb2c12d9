package target

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// TestLinuxStartUpSequence executes the commands of a Linux 6.12 host from Connect to the first read, with its
// checks.
func TestLinuxStartUpSequence(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31, KATO: 5000}, connectData()))
	id := capsule.ParseConnectResponse(r.result)
	if id.CNTLID < capsule.ControllerIDMin || id.CNTLID > capsule.ControllerIDMax || id.ATR || id.ASCR {
		t.Errorf("connect response %+v", id)
	}
	if h.entries != 32 {
		t.Errorf("submission queue of %d entries, want 32", h.entries)
	}
	limits := capsule.CAP(h.property(capsule.PropertyCAP)).Fields()
	if limits.MQES != 127 || !limits.CQR || limits.MPSMIN != 0 || limits.CSS&capsule.CSSNVM == 0 || limits.TO == 0 {
		t.Errorf("CAP %+v", limits)
	}
	if crto := capsule.CRTO(h.property(capsule.PropertyCRTO)); limits.CRMS&1 == 0 || crto.WithMedia() < uint16(limits.TO) {
		t.Errorf("CRTO %#x, CAP.CRMS %d: Linux warns of a CRTO below CAP.TO", crto, limits.CRMS)
	}
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	if s := capsule.CSTS(h.property(capsule.PropertyCSTS)); !s.Ready() || s.Fatal() {
		t.Errorf("CSTS %#x after CC.EN", s)
	}
	if v := capsule.Version(h.property(capsule.PropertyVS)); v != state.Version {
		t.Errorf("VS %v", v)
	}
	wantIdentifyController(t, h, id.CNTLID)
	wantEffects(t, h)
	wantANALog(t, h)
	wantFeatures(t, h)
	io := f.connectIO(id.CNTLID, 1, 1)
	wantNamespace(t, h)
	data := make([]byte, 4096)
	io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 8}, data))
}

// TestVersion: the version that the administrator configures is reported in both places.
func TestVersion(t *testing.T) {
	f := newFixture(t)
	for _, v := range []capsule.Version{capsule.MakeVersion(1, 2, 0), capsule.MakeVersion(2, 1, 0)} {
		if _, err := f.target.AddSubsystem(SubsystemConfig{NQN: "nqn.x", Version: v}); err == nil {
			t.Errorf("version %v is taken", v)
		}
	}
	want := capsule.MakeVersion(1, 3, 0)
	sub, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":old", Version: want})
	if err != nil {
		t.Fatal(err)
	}
	h := f.tenant("a", sub, 0).admin
	c, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
	if vs := capsule.Version(h.property(capsule.PropertyVS)); err != nil || vs != want || c.VER != want {
		t.Errorf("VS %v, VER %v, %v", vs, c.VER, err)
	}
}

func identifyInto(h *hostQueue, cns capsule.CNS, nsid capsule.NSID) []byte {
	h.t.Helper()
	b := bytes.Repeat([]byte{0xa5}, capsule.IdentifySize)
	c := adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: cns}, b)
	c.sqe.NSID = nsid
	h.wantOK(c)
	return b
}

func wantIdentifyController(t *testing.T, h *hostQueue, id capsule.ControllerID) {
	t.Helper()
	c, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
	if err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"CNTLID is that of Connect": c.CNTLID == id,
		"ICDOFF is 0":               c.ICDOFF == 0,
		"keyed SGLs":                c.SGLS&capsule.SGLSKeyed != 0,
		"data in capsules":          c.SGLS&capsule.SGLSOffset != 0,
		"IOCCSZ":                    c.IOCCSZ == (64+4096)/16,
		"IORCSZ":                    c.IORCSZ == 1,
		"keep alive":                c.KAS != 0,
		"MAXCMD":                    c.MAXCMD == 128,
		"MNAN at most NN":           c.MNAN != 0 && c.MNAN <= c.NN,
		"several controllers":       c.CMIC&capsule.CMICManyControllers != 0,
		"ANA groups":                c.CMIC&capsule.CMICANA != 0 && c.ANAGRPMAX != 0 && c.NANAGRPID != 0,
		"SUBNQN":                    c.SubNQN.Is(testSubNQN),
		"I/O controller":            c.CNTRLTYPE == capsule.ControllerTypeIO,
		"MDTS of 1 MiB":             c.MDTS == 8,
		"effects log":               c.LPA&capsule.LPAEffects != 0,
		"serial number":             len(capsule.Text(c.SN[:])) == 20,
		"firmware revision":         capsule.Text(c.FR[:]) == "1.2.3",
		"entry sizes":               c.SQES == 0x66 && c.CQES == 0x44,
		"Write Zeroes, DSM":         c.ONCS&(capsule.ONCSWriteZeroes|capsule.ONCSDatasetManagement) == capsule.ONCSWriteZeroes|capsule.ONCSDatasetManagement,
		"namespace events":          c.OAES&capsule.EventNamespaceAttribute != 0,
		"ANA log fits one transfer": 16+32*c.NANAGRPID+4*c.MNAN <= 1<<20,
		"volatile cache, flush all": c.VWC == 7,
		"version is that of VS":     c.VER == state.Version,
		"traffic based keep alive":  c.CTRATT&capsule.CTRATTTBKAS != 0,
		"AERL":                      c.AERL == 3,
	} {
		if !ok {
			t.Errorf("identify controller: %s: %+v", what, c)
		}
	}
}

func logInto(h *hostQueue, lid capsule.LID, n int, offset uint64) []byte {
	h.t.Helper()
	b := bytes.Repeat([]byte{0xa5}, n)
	h.wantOK(adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: lid, Length: uint64(n), LPO: offset}, b))
	return b
}

func wantEffects(t *testing.T, h *hostQueue) {
	t.Helper()
	b := logInto(h, capsule.LogEffects, capsule.EffectsLogSize, 0)
	for _, op := range []capsule.AdminOpcode{capsule.AdminIdentify, capsule.AdminGetLogPage, capsule.AdminAsyncEvent, capsule.AdminKeepAlive} {
		if capsule.AdminEffects(b, op) != capsule.EffectSupported {
			t.Errorf("effects of %v: %#x", op, capsule.AdminEffects(b, op))
		}
	}
	for _, op := range []capsule.IOOpcode{capsule.IOWrite, capsule.IOWriteZeroes, capsule.IODatasetManagement} {
		if capsule.IOEffects(b, op) != capsule.EffectSupported|capsule.EffectBlockContentChange {
			t.Errorf("effects of %v: %#x", op, capsule.IOEffects(b, op))
		}
	}
	if capsule.AdminEffects(b, capsule.AdminFormat) != 0 || capsule.IOEffects(b, capsule.IOWriteUncorrectable) != 0 {
		t.Error("effects log has commands that are not supported")
	}
}

func wantANALog(t *testing.T, h *hostQueue) {
	t.Helper()
	b := logInto(h, capsule.LogANA, 16+32+4*storage.MaxNamespace, 0)
	head, err := capsule.DecodeANALogHeader(b)
	if err != nil || head.NGRPS != 1 {
		t.Fatalf("ANA log header %+v, %v", head, err)
	}
	d, err := capsule.DecodeANADescriptor(b[16:])
	if err != nil || d.Group != 1 || d.State != capsule.ANAOptimized || d.NNSIDS != 1 || capsule.NSIDAt(b[48:], 0) != 1 {
		t.Errorf("ANA descriptor %+v, first namespace %d, %v", d, capsule.NSIDAt(b[48:], 0), err)
	}
}

func wantFeatures(t *testing.T, h *hostQueue) {
	t.Helper()
	set := func(fid capsule.FID, v uint32, data []byte) uint64 {
		t.Helper()
		return h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: fid, Value: v}, data)).result
	}
	set(capsule.FeatureTimestamp, 0, []byte{1, 2, 3, 4, 5, 6, 0, 0})
	got := make([]byte, 8)
	h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureTimestamp}, got))
	if got[5] != 6 || got[6] != 2 {
		t.Errorf("timestamp % x, want the one that was set, origin 1", got)
	}
	set(capsule.FeatureHostBehavior, 0, append([]byte{1}, make([]byte, 511)...))
	q := capsule.QueueCounts{Submission: 4, Completion: 4}
	if got := set(capsule.FeatureNumberOfQueues, q.Value(), nil); capsule.ParseQueueCounts(uint32(got)) != q {
		t.Errorf("queues granted %#x", got)
	}
	set(capsule.FeatureAsyncEvent, 0x900, nil)
	h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil)).wantPending()
	h.wantOK(adminCommand(capsule.AdminKeepAlive, nil, nil))
	if got := h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureKeepAliveTimer}, nil)).result; got != 5000 {
		t.Errorf("KATO %d", got)
	}
}

func wantNamespace(t *testing.T, h *hostQueue) {
	t.Helper()
	list := identifyInto(h, capsule.CNSActiveNamespaces, 0)
	if capsule.NSIDAt(list, 0) != 1 || capsule.NSIDAt(list, 1) != 0 {
		t.Errorf("active namespaces % x", list[:12])
	}
	seen := map[capsule.DescriptorType]bool{}
	for b := identifyInto(h, capsule.CNSDescriptors, 1); ; {
		typ, id, rest, err := capsule.NextDescriptor(b)
		if err != nil {
			t.Fatal(err)
		}
		if rest == nil {
			break
		}
		if len(id) != typ.Length() {
			t.Errorf("descriptor %d of %d bytes", typ, len(id))
		}
		seen[typ], b = true, rest
	}
	if !seen[capsule.DescriptorUUID] || !seen[capsule.DescriptorCSI] {
		t.Errorf("descriptors %v", seen)
	}
	ns, err := capsule.DecodeIdentifyNamespace(identifyInto(h, capsule.CNSNamespace, 1))
	if err != nil || ns.NSZE != 16<<20/512 || ns.NCAP != ns.NSZE || ns.NMIC&capsule.NMICShared == 0 ||
		ns.Format().LBADS != 9 || ns.ANAGRPID != 1 {
		t.Errorf("namespace %+v, %v", ns, err)
	}
	ind, err := capsule.DecodeIdentifyNamespaceIndependent(identifyInto(h, capsule.CNSNamespaceIndependent, 1))
	if err != nil || ind.NSTAT&capsule.NSTATReady == 0 || ind.NMIC != ns.NMIC || ind.ANAGRPID != ns.ANAGRPID {
		t.Errorf("independent namespace %+v, %v", ind, err)
	}
	identifyInto(h, capsule.CNSControllerCSI, 0)
	identifyInto(h, capsule.CNSNamespaceCSI, 1)
	if ns, err := capsule.DecodeIdentifyNamespace(identifyInto(h, capsule.CNSNamespace, 2)); err != nil || ns != (capsule.IdentifyNamespace{}) {
		t.Error("an inactive namespace's data is not zero")
	}
}
