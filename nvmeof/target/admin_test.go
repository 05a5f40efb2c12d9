package target

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// TestBadProperties is row 45, and row 70 for NSSR, which is not supported.
func TestBadProperties(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	get := func(size int, off uint32) *hostCommand {
		return fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: size, Offset: off})
	}
	set := func(size int, off capsule.PropertyOffset) *hostCommand {
		return fabricsCommand(capsule.FabricsPropertySet, capsule.Property{Size: size, Offset: uint32(off), Value: 1})
	}
	reserved := get(4, uint32(capsule.PropertyCC))
	reserved.sqe.CDW10 = 2
	for _, c := range []*hostCommand{
		get(4, 0), get(8, uint32(capsule.PropertyCC)), get(8, uint32(capsule.PropertyVS)), get(4, 4),
		get(4, uint32(capsule.PropertyNSSR)), get(8, 0x28), get(4, 0x1000), get(8, math.MaxUint32), reserved,
		set(8, capsule.PropertyCC), set(8, capsule.PropertyCAP), set(4, capsule.PropertyVS),
		set(4, capsule.PropertyCSTS), set(4, capsule.PropertyNSSR), set(4, capsule.PropertyCRTO),
	} {
		h.wantStatus(invalidField, c)
	}
}

// TestBadEnable is row 45 for CC.
func TestBadEnable(t *testing.T) {
	for name, cc := range map[string]capsule.CC{
		"CSS 1":       linuxCC.WithCSS(1),
		"CSS admin":   linuxCC.WithCSS(capsule.CCCSSAdmin),
		"MPS 1":       linuxCC.WithMPS(1),
		"AMS 1":       linuxCC.WithAMS(1),
		"entry sizes": linuxCC.WithEntrySizes(0, 0),
		"IOCQES":      linuxCC.WithEntrySizes(6, 5),
	} {
		f := newFixture(t)
		h := f.dial(0, 0, 32)
		h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
		h.setCC(cc.WithEnable(true))
		if s := capsule.CSTS(h.property(capsule.PropertyCSTS)); !s.Fatal() || s.Ready() {
			t.Errorf("%s: CSTS %#x, want CFS", name, s)
		}
		h.wantStatus(capsule.StatusCommandSequence|dnr, adminCommand(capsule.AdminKeepAlive, nil, nil))
		h.setCC(0) // a reset helps
		h.setCC(linuxCC.WithEnable(true))
		if s := capsule.CSTS(h.property(capsule.PropertyCSTS)); s.Fatal() || !s.Ready() {
			t.Errorf("%s: CSTS %#x after reset", name, s)
		}
	}
}

// TestAdminBeforeEnable is row 73 for the admin queue.
func TestAdminBeforeEnable(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	h.wantStatus(capsule.StatusCommandSequence|dnr, adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 1}, make([]byte, 4096)))
}

// TestBadFabricsCommands is row 46.
func TestBadFabricsCommands(t *testing.T) {
	f := newFixture(t)
	admin, io := f.both()
	for _, h := range []*hostQueue{admin, io} {
		for _, typ := range []capsule.FabricsType{2, 5, 6, 7, 9, 0x80, 0xff} {
			h.wantStatus(capsule.StatusInvalidOpcode|dnr, fabricsCommand(typ, nil))
		}
	}
	admin.wantStatus(capsule.StatusInvalidQueueType|dnr, fabricsCommand(capsule.FabricsDisconnect, nil))
	bad := fabricsCommand(capsule.FabricsDisconnect, nil)
	bad.sqe.CDW10 = 1
	io.wantStatus(capsule.StatusConnectIncompatibleFormat|dnr, bad)
	io.wantStatus(capsule.StatusInvalidOpcode|dnr, fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: 8}))
	s := newFakeStore(1 << 20)
	f.export(s)
	io.call(func() { io.holdAck = true })
	io.wantOK(fabricsCommand(capsule.FabricsDisconnect, nil))
	for _, late := range []*hostCommand{writeOf(2), fabricsCommand(capsule.FabricsDisconnect, nil)} {
		io.wantStatus(capsule.StatusSQDeleted, late) // before the host has acknowledged
	}
	io.ack()
	<-io.closed
	if ops := s.ops(); len(ops) != 0 {
		t.Errorf("a command after Disconnect was executed: %+v", ops)
	}
	admin.wantOK(adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 1}, make([]byte, 4096)))
}

// TestDisconnectAfterConnect: an I/O queue ends only when the host has the completion of Disconnect, even if that
// of Connect is acknowledged in between.
func TestDisconnectAfterConnect(t *testing.T) {
	f := newFixture(t)
	_, id := f.connectAdmin(0)
	io := f.dial(1, 1, 128)
	io.call(func() { io.holdAck = true })
	d := connectData()
	d.CNTLID = id
	io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	io.wantOK(fabricsCommand(capsule.FabricsDisconnect, nil))
	io.call(func() {
		first := io.unacked[0]
		io.unacked = io.unacked[1:]
		io.acknowledge(first)
		if io.ended {
			t.Error("the queue ends before Disconnect has been acknowledged")
		}
	})
	io.ack()
	<-io.closed
}

// TestOpcodes is rows 67, 72 and 91.
func TestOpcodes(t *testing.T) {
	f := newFixture(t)
	admin, io := f.both()
	known := map[int]bool{0x02: true, 0x06: true, 0x08: true, 0x09: true, 0x0a: true, 0x0c: true, 0x18: true, 0x7f: true}
	for op := range 256 {
		if !known[op] {
			admin.wantStatus(capsule.StatusInvalidOpcode|dnr, adminCommand(capsule.AdminOpcode(op), nil, nil))
		}
	}
	known = map[int]bool{0x00: true, 0x01: true, 0x02: true, 0x05: true, 0x08: true, 0x09: true, 0x0c: true, 0x0d: true, 0x0e: true, 0x11: true, 0x15: true, 0x19: true, 0x7f: true}
	for op := range 256 {
		if !known[op] {
			io.wantStatus(capsule.StatusInvalidOpcode|dnr, ioCommand(capsule.IOOpcode(op), 1, nil, nil))
		}
	}
	effects := logInto(admin, capsule.LogEffects, capsule.EffectsLogSize, 0)
	wantOptionalAbsent(t, effects)
}

// wantOptionalAbsent checks that the effects log does not report commands that are not implemented: Security Send
// and Receive, firmware, namespace management, directives, Format and Sanitize, and that it reports I/O commands
// only as such, and admin commands only as such.
func wantOptionalAbsent(t *testing.T, effects []byte) {
	t.Helper()
	supported := func(admin bool, op int) bool {
		at := 4 * op
		if !admin {
			at += 1024
		}
		return effects[at]&1 != 0
	}
	for _, op := range []int{0x0d, 0x10, 0x11, 0x14, 0x15, 0x19, 0x1a, 0x1c, 0x80, 0x81, 0x82, 0x84} {
		if supported(true, op) {
			t.Errorf("the effects log has admin opcode %#x", op)
		}
	}
	if !supported(true, int(capsule.AdminIdentify)) || !supported(false, int(capsule.IORead)) || supported(false, 0x80) {
		t.Error("the effects log does not have what is executed, or more")
	}
}

// TestReservedFieldsAreIgnored is row 72: reserved bits are ignored, on both kinds of queue.
func TestReservedFieldsAreIgnored(t *testing.T) {
	f := newFixture(t)
	admin, io := f.both()
	noise := func(c *hostCommand) *hostCommand {
		c.sqe.CDW2, c.sqe.CDW3, c.sqe.MPTR = math.MaxUint32, math.MaxUint32, math.MaxUint64
		c.sqe.Flags |= 0x3c
		return c
	}
	flush := noise(ioCommand(capsule.IOFlush, 1, nil, nil))
	flush.sqe.CDW10, flush.sqe.CDW11, flush.sqe.CDW12 = 1, 2, 3
	flush.sqe.CDW13, flush.sqe.CDW14, flush.sqe.CDW15 = 4, 5, 6
	io.wantOK(flush)
	io.wantOK(noise(writeOf(1)))
	io.wantOK(noise(readOf(1)))
	admin.wantOK(noise(adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 1}, make([]byte, 4096))))
	admin.wantOK(noise(fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: 8})))
}

// TestAbort is row 65.
func TestAbort(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	finished := readOf(1)
	finished.sqe.CID = 77
	io.wantOK(finished)
	aer := adminCommand(capsule.AdminAsyncEvent, nil, nil)
	aer.sqe.CID = 31
	h.start(aer).wantPending()
	abort := func(sqid capsule.QID, cid capsule.CID) uint64 {
		t.Helper()
		return h.wantOK(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: sqid, CID: cid}, nil)).result
	}
	for _, c := range []struct {
		sqid capsule.QID
		cid  capsule.CID
	}{{0, 99}, {1, 31}, {9, 1}, {0, 0}, {1, 77}, {0xffff, 0xffff}} {
		if abort(c.sqid, c.cid) != notAborted {
			t.Errorf("queue %d command %d counts as aborted", c.sqid, c.cid)
		}
	}
	aer.wantPending()
	if abort(0, 31) != 0 {
		t.Error("the event request does not count as aborted")
	}
	if r := <-aer.response; r.status != capsule.StatusAbortRequested|dnr {
		t.Errorf("aborted event request: %v", r.status)
	}
}

// TestTooManyEventRequests is row 66.
func TestTooManyEventRequests(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	for i := range state.MaxEvents {
		c := adminCommand(capsule.AdminAsyncEvent, nil, nil)
		c.sqe.CID = capsule.CID(i)
		h.start(c).wantPending()
	}
	h.wantStatus(capsule.StatusAERLimitExceeded|dnr, adminCommand(capsule.AdminAsyncEvent, nil, nil))
}

// TestKeepAliveWithoutTimeout is row 67.
func TestKeepAliveWithoutTimeout(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	h.wantStatus(capsule.StatusKeepAliveInvalid|dnr, adminCommand(capsule.AdminKeepAlive, nil, nil))
}

// TestBadFeatures is row 90.
func TestBadFeatures(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	set := func(want capsule.Status, s capsule.SetFeatures, n int, nsid capsule.NSID) {
		t.Helper()
		var data []byte
		if n > 0 {
			data = make([]byte, n)
		}
		c := adminCommand(capsule.AdminSetFeatures, s, data)
		c.sqe.NSID = nsid
		h.wantStatus(want, c)
	}
	queues := capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues}
	set(capsule.StatusCommandSequence|dnr, queues, 0, 0) // I/O queues exist
	io.lose()
	queues.Value = 0xffff
	set(invalidField, queues, 0, 0)
	queues.Value = 0xffff0000
	set(invalidField, queues, 0, 0)
	set(capsule.StatusKeepAliveInvalid|dnr, capsule.SetFeatures{FID: capsule.FeatureKeepAliveTimer}, 0, 0)
	set(invalidField, capsule.SetFeatures{FID: 0x7f}, 0, 0)
	set(invalidField, capsule.SetFeatures{FID: 0}, 0, 0)
	set(capsule.StatusFeatureNotSaveable|dnr, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Save: true}, 0, 0)
	set(capsule.StatusFeatureNotNamespaceSpecific|dnr, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent}, 0, 1)
	set(capsule.StatusHostIDInconsistent|dnr, capsule.SetFeatures{FID: capsule.FeatureHostID}, 8, 0)
	set(capsule.StatusCommandSequence|dnr, capsule.SetFeatures{FID: capsule.FeatureHostID, Value: 1}, 16, 0)
	set(invalidField, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: 1 << 14}, 0, 0)
	set(invalidField, capsule.SetFeatures{FID: capsule.FeaturePowerManagement, Value: 1}, 0, 0)
	set(invalidField, capsule.SetFeatures{FID: capsule.FeatureErrorRecovery, Value: 1 << 16}, 0, 0)
	set(capsule.StatusSGLDataLength|dnr, capsule.SetFeatures{FID: capsule.FeatureTimestamp}, 16, 0)
	set(capsule.StatusSGLDataLength|dnr, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent}, 8, 0)
	set(capsule.StatusSuccess, capsule.SetFeatures{FID: capsule.FeatureArbitration, Value: 0x07}, 0, capsule.NSIDBroadcast)
	wantBadGetFeatures(t, h)
}

// wantBadGetFeatures tests Get Features after arbitration was set to 7.
func wantBadGetFeatures(t *testing.T, h *hostQueue) {
	t.Helper()
	get := func(want capsule.Status, g capsule.GetFeatures, n int) uint64 {
		t.Helper()
		var data []byte
		if n > 0 {
			data = make([]byte, n)
		}
		return h.wantStatus(want, adminCommand(capsule.AdminGetFeatures, g, data)).result
	}
	if v := get(capsule.StatusSuccess, capsule.GetFeatures{FID: capsule.FeatureArbitration}, 0); v != 7 {
		t.Errorf("arbitration %d, want the 7 that was set", v)
	}
	if v := get(capsule.StatusSuccess, capsule.GetFeatures{FID: capsule.FeatureArbitration, Select: capsule.SelectDefault}, 0); v != 0 {
		t.Errorf("default arbitration %d", v)
	}
	get(invalidField, capsule.GetFeatures{FID: 0x7f}, 0)
	get(invalidField, capsule.GetFeatures{FID: capsule.FeatureLBARange}, capsule.LBARangeTypeSize)
	get(invalidField, capsule.GetFeatures{FID: capsule.FeatureArbitration, Select: 4}, 0)
	get(capsule.StatusSGLDataLength|dnr, capsule.GetFeatures{FID: capsule.FeatureArbitration}, 4096)
	get(capsule.StatusHostIDInconsistent|dnr, capsule.GetFeatures{FID: capsule.FeatureHostID}, 8)
	id := make([]byte, 16)
	h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureHostID, Value: 1}, id))
	if capsule.HostID(id) != testHostID {
		t.Errorf("host identifier % x", id)
	}
}

// TestFeatureDefaults reads defaults and capabilities after hosts have changed values.
func TestFeatureDefaults(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues}, nil))
	stamp := []byte{1, 2, 3, 4, 5, 6, 0, 0}
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureTimestamp}, stamp))
	behavior := make([]byte, capsule.HostBehaviorSize)
	behavior[0] = 1
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureHostBehavior}, behavior))
	get := func(id capsule.FID, s capsule.FeatureSelect, n int) (uint64, []byte) {
		t.Helper()
		b := bytes.Repeat([]byte{0xee}, n)
		return h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: id, Select: s}, b)).result, b
	}
	limit := f.target.cfg.MaxQueues
	for _, s := range []capsule.FeatureSelect{capsule.SelectDefault, capsule.SelectSaved} {
		if v, _ := get(capsule.FeatureVolatileWriteCache, s, 0); v != 1 {
			t.Errorf("write cache %d with select %d; it is always there", v, s)
		}
		if v, _ := get(capsule.FeatureTemperatureThreshold, s, 0); v != health.Warning {
			t.Errorf("temperature threshold %d with select %d, want WCTEMP", v, s)
		}
		if v, _ := get(capsule.FeatureNumberOfQueues, s, 0); v != uint64(capsule.QueueCounts{Submission: limit, Completion: limit}.Value()) {
			t.Errorf("queues %#x with select %d, want %d of each", v, s, limit)
		}
		for id, n := range map[capsule.FID]int{capsule.FeatureTimestamp: 8, capsule.FeatureHostBehavior: capsule.HostBehaviorSize} {
			if _, b := get(id, s, n); !bytes.Equal(b, make([]byte, n)) {
				t.Errorf("feature %02xh with select %d: % x", id, s, b[:8])
			}
		}
	}
	for id, want := range map[capsule.FID]uint32{
		capsule.FeatureHostID: 0, capsule.FeatureVolatileWriteCache: capsule.FeatureChangeable, capsule.FeatureTimestamp: capsule.FeatureChangeable,
		capsule.FeatureReservationMask: capsule.FeatureChangeable | capsule.FeatureNamespaceSpecific,
	} {
		if v, _ := get(id, capsule.SelectSupported, 0); v != uint64(want) {
			t.Errorf("capabilities of feature %02xh %#x, want %#x", id, v, want)
		}
	}
}

// TestBadIdentify is row 89.
func TestBadIdentify(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	invalidNS := capsule.StatusInvalidNamespace | dnr
	for _, c := range []struct {
		name string
		f    capsule.Identify
		nsid capsule.NSID
		n    int
		want capsule.Status
	}{
		{"unknown CNS", capsule.Identify{CNS: 0x77}, 0, 4096, invalidField},
		{"CNS of the key value set", capsule.Identify{CNS: capsule.CNSNamespaceCSI, CSI: capsule.CSIKV}, 1, 4096, invalidField},
		{"controller of the zoned set", capsule.Identify{CNS: capsule.CNSControllerCSI, CSI: capsule.CSIZNS}, 0, 4096, invalidField},
		{"UUID index", capsule.Identify{CNS: capsule.CNSController, UUID: 1}, 0, 4096, invalidField},
		{"CNS 00h, NSID 0", capsule.Identify{}, 0, 4096, invalidNS},
		{"CNS 00h, all namespaces", capsule.Identify{}, capsule.NSIDBroadcast, 4096, invalidNS},
		{"CNS 00h, NSID above NN", capsule.Identify{}, storage.MaxNamespace + 1, 4096, invalidNS},
		{"CNS 03h, inactive", capsule.Identify{CNS: capsule.CNSDescriptors}, 2, 4096, invalidNS},
		{"CNS 08h, NSID 0", capsule.Identify{CNS: capsule.CNSNamespaceIndependent}, 0, 4096, invalidNS},
		{"CNS 02h, NSID all ones", capsule.Identify{CNS: capsule.CNSActiveNamespaces}, capsule.NSIDBroadcast, 4096, invalidNS},
		{"short buffer", capsule.Identify{CNS: capsule.CNSController}, 0, 2048, capsule.StatusSGLDataLength | dnr},
		{"no buffer", capsule.Identify{CNS: capsule.CNSController}, 0, 0, capsule.StatusSGLDataLength | dnr},
		{"long buffer", capsule.Identify{CNS: capsule.CNSController}, 0, 8192, capsule.StatusSGLDataLength | dnr},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := adminCommand(capsule.AdminIdentify, c.f, make([]byte, c.n))
			cmd.sqe.NSID = c.nsid
			h.t = t
			h.wantStatus(c.want, cmd)
		})
	}
	h.t = t
}

// TestBadGetLogPage is rows 86 to 88, on both kinds of controller.
func TestBadGetLogPage(t *testing.T) {
	f := newFixture(t)
	d := connectData()
	d.SubNQN = nqnField(capsule.DiscoveryNQN)
	disc := f.dial(0, 0, 32)
	disc.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	disc.setCC(linuxCC.WithEnable(true))
	admin, _ := f.connectAdmin(0)
	for name, h := range map[capsule.LID]*hostQueue{capsule.LogDiscovery: disc, capsule.LogError: admin} {
		bad := func(want capsule.Status, g capsule.GetLogPage, n int, nsid capsule.NSID) {
			t.Helper()
			c := adminCommand(capsule.AdminGetLogPage, g, make([]byte, n))
			c.sqe.NSID = nsid
			h.wantStatus(want, c)
		}
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16, LPO: 2}, 16, 0)
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16, LPO: 1 << 63}, 16, 0)
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16, LPO: math.MaxUint64 &^ 3}, 16, 0)
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16, LPO: 1 << 20}, 16, 0)
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16, OT: true}, 16, 0)
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16, UUID: 1}, 16, 0)
		bad(invalidField, capsule.GetLogPage{LID: name, Length: 16}, 16, 1)
		bad(capsule.StatusSGLDataLength|dnr, capsule.GetLogPage{LID: name, Length: 1 << 34}, 16, 0)
		bad(capsule.StatusSGLDataLength|dnr, capsule.GetLogPage{LID: name, Length: 16}, 12, 0)
		bad(capsule.StatusInvalidLogPage|dnr, capsule.GetLogPage{LID: 0x7f, Length: 16}, 16, 0)
	}
	disc.wantStatus(capsule.StatusInvalidLogPage|dnr,
		adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogSMART, Length: 512}, make([]byte, 512)))
	admin.wantStatus(capsule.StatusInvalidLogPage|dnr,
		adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogDiscovery, Length: 512}, make([]byte, 512)))
}

// TestLogPagesEndWithZeroes is row 86: it requests more than the length of each page.
func TestLogPagesEndWithZeroes(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	for _, lid := range []capsule.LID{
		capsule.LogSupportedPages, capsule.LogError, capsule.LogSMART, capsule.LogFirmwareSlot,
		capsule.LogChangedNamespaces, capsule.LogEffects, capsule.LogANA,
	} {
		whole := logInto(h, lid, 8192, 0)
		for i := 4100; i < 8192; i++ {
			if whole[i] != 0 {
				t.Fatalf("log %#x: byte %d is %#x", lid, i, whole[i])
			}
		}
		part := logInto(h, lid, 64, 8)
		if lid != capsule.LogSMART && string(part[:8]) != string(whole[8:16]) {
			t.Errorf("log %#x at offset 8: % x, want % x", lid, part[:8], whole[8:16])
		}
	}
}

func TestErrorLog(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	for i := range maxErrors + 3 {
		c := ioCommand(capsule.IORead, 1, capsule.ReadWrite{SLBA: 1 << 40, Blocks: 1}, make([]byte, 512))
		c.sqe.CID = capsule.CID(i)
		io.wantStatus(capsule.StatusLBAOutOfRange|dnr, c)
	}
	b := logInto(h, capsule.LogError, maxErrors*capsule.ErrorLogEntrySize, 0)
	e, err := capsule.DecodeErrorLogEntry(b)
	if err != nil || e.Count != maxErrors+3 || e.SQID != 1 || e.CID != maxErrors+2 || e.LBA != 1<<40 || e.NSID != 1 ||
		e.Status != capsule.StatusLBAOutOfRange|dnr || e.Opcode != capsule.Opcode(capsule.IORead) {
		t.Errorf("newest entry %+v, %v", e, err)
	}
	if e.Parameter != capsule.ParameterAt(10, 0) {
		t.Errorf("the error is in %#x, want SLBA", e.Parameter)
	}
	last, err := capsule.DecodeErrorLogEntry(b[(maxErrors-1)*capsule.ErrorLogEntrySize:])
	if err != nil || last.Count != 4 {
		t.Errorf("oldest entry %+v, %v", last, err)
	}
	s, err := capsule.DecodeSMARTLog(logInto(h, capsule.LogSMART, 512, 0))
	if err != nil || s.ErrorLogEntries.Lo != maxErrors+3 {
		t.Errorf("SMART log counts %v errors, %v", s.ErrorLogEntries, err)
	}
}

func TestSMARTCountsCommands(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	data := make([]byte, 128<<10)
	rw := capsule.ReadWrite{Blocks: 256}
	for range 5 {
		io.wantOK(ioCommand(capsule.IORead, 1, rw, data))
	}
	for range 9 {
		io.wantOK(ioCommand(capsule.IOWrite, 1, rw, data))
	}
	s, err := capsule.DecodeSMARTLog(logInto(h, capsule.LogSMART, 512, 0))
	if err != nil || s.HostReads.Lo != 5 || s.HostWrites.Lo != 9 || s.DataUnitsRead.Lo != 2 || s.DataUnitsWritten.Lo != 3 {
		t.Errorf("SMART log %+v, %v", s, err)
	}
	if s.CriticalWarning != 0 || s.AvailableSpare != 100 {
		t.Errorf("SMART log of a sound namespace %+v", s)
	}
}

func TestTimestampOrigin(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	b := make([]byte, 8)
	h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureTimestamp}, b))
	if v := binary.LittleEndian.Uint64(b); v > 60000 {
		t.Errorf("timestamp %#x of a new controller, want milliseconds since its start, origin 0", v)
	}
}
