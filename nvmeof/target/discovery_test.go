package target

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

func (f *fixture) connectDiscovery(host string) *hostQueue {
	f.t.Helper()
	d := connectData()
	d.SubNQN, d.HostNQN = nqnField(capsule.DiscoveryNQN), nqnField(host)
	d.HostID = capsule.HostID{} // allowed for discovery
	h := f.dial(0, 0, 32)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	return h
}

// discover reads the log as nvme-cli does: 20 bytes of the header, the entries, the header again.
func (h *hostQueue) discover() (entries []capsule.DiscoveryEntry, generation uint64) {
	h.t.Helper()
	head, err := capsule.DecodeDiscoveryHeader(logInto(h, capsule.LogDiscovery, 20, 0))
	if err != nil || head.RECFMT != 0 {
		h.t.Fatalf("header %+v, %v", head, err)
	}
	b := logInto(h, capsule.LogDiscovery, int(head.NUMREC)*capsule.DiscoveryEntrySize, capsule.DiscoveryHeaderSize)
	for ; len(b) > 0; b = b[capsule.DiscoveryEntrySize:] {
		e, err := capsule.DecodeDiscoveryEntry(b)
		if err != nil {
			h.t.Fatal(err)
		}
		entries = append(entries, e)
	}
	again, err := capsule.DecodeDiscoveryHeader(logInto(h, capsule.LogDiscovery, 20, 0))
	if err != nil || again != head {
		h.t.Errorf("header changed from %+v to %+v, %v", head, again, err)
	}
	return entries, head.GENCTR
}

func summary(es []capsule.DiscoveryEntry) string {
	var lines []string
	for _, e := range es {
		lines = append(lines, strings.Join([]string{
			e.TRTYPE.String(), e.ADRFAM.String(), string('0' + rune(e.SUBTYPE)), capsule.Text(e.TRADDR[:]),
			capsule.Text(e.TRSVCID[:]), e.SubNQN.String(),
		}, " "))
	}
	return strings.Join(lines, "\n")
}

func TestDiscoveryLog(t *testing.T) {
	f := newFixture(t)
	if _, err := f.target.Listen(netip.MustParseAddrPort("192.0.2.1:4420")); err != nil {
		t.Fatal(err)
	}
	second, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	if err != nil {
		t.Fatal(err)
	}
	h := f.connectDiscovery(testHostNQN)
	es, before := h.discover()
	want := "rdma ipv4 3 192.0.2.1 4420 " + capsule.DiscoveryNQN + "\nrdma ipv4 2 192.0.2.1 4420 " + testSubNQN
	if got := summary(es); got != want {
		t.Errorf("log for an allowed host:\n%s\nwant\n%s", got, want)
	}
	if es[1].CNTLID != capsule.ControllerIDDynamic || es[1].PORTID != 1 || es[1].TREQ != capsule.TREQNoFlowControl ||
		es[1].RDMAQPType != 1 || es[1].RDMAPRType != 1 || es[1].RDMACMS != 1 || es[1].ASQSZ != 128 {
		t.Errorf("entry %+v", es[1])
	}
	second.AllowAnyHost(true)
	es, after := h.discover()
	if got := summary(es); got != want+"\nrdma ipv4 2 192.0.2.1 4420 "+testSubNQN+"2" || after == before {
		t.Errorf("after another subsystem was opened (generation %d, then %d):\n%s", before, after, got)
	}
	stranger := f.connectDiscovery("nqn.2026-11.io.example:stranger")
	if es, _ := stranger.discover(); len(es) != 2 || !es[1].SubNQN.Is(testSubNQN+"2") {
		t.Errorf("a stranger sees\n%s", summary(es))
	}
}

func TestDiscoveryController(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	h := f.connectDiscovery(testHostNQN)
	c, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
	if err != nil || c.CNTRLTYPE != capsule.ControllerTypeDiscovery || !c.SubNQN.Is(capsule.DiscoveryNQN) ||
		c.OAES != capsule.EventDiscoveryChange || c.NN != 0 || c.CMIC != 0 || c.MAXCMD == 0 || c.LPA&capsule.LPAExtendedData == 0 {
		t.Errorf("identify controller %+v, %v", c, err)
	}
	for _, cmd := range []*hostCommand{
		adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: capsule.CNSActiveNamespaces}, make([]byte, 4096)),
		adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues}, nil),
	} {
		h.wantStatus(invalidField, cmd)
	}
	h.wantStatus(capsule.StatusInvalidOpcode|dnr, adminCommand(capsule.AdminAbort, nil, nil))
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: capsule.EventDiscoveryChange}, nil))
	aer := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	aer.wantPending()
	third, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "3"})
	if err != nil {
		t.Fatal(err)
	}
	third.AllowHost(otherHostNQN)
	aer.wantPending() // the change is not for this host
	third.AllowHost(testHostNQN)
	r := <-aer.response
	if e := capsule.ParseAsyncEvent(uint32(r.result)); e.Info != capsule.NoticeDiscoveryChange || e.LID != capsule.LogDiscovery {
		t.Errorf("event %+v", e)
	}
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	if s := capsule.CSTS(h.property(capsule.PropertyCSTS)); s.Shutdown() != capsule.ShutdownComplete {
		t.Errorf("CSTS %#x after shutdown", s)
	}
}

// TestBadConnectionRequests is rows 1 to 6 and 111.
func TestBadConnectionRequests(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.QueueMemory = 1 << 20 })
	l, err := f.target.Listen(netip.MustParseAddrPort("192.0.2.1:4420"))
	if err != nil || l.Addr().Port() != 4420 {
		t.Fatal(l, err)
	}
	good := capsule.RequestData{QID: 0, HRQSIZE: 32, HSQSIZE: 31}
	for _, c := range []struct {
		name   string
		change func(*capsule.RequestData, *fakeRequest)
		want   capsule.RejectStatus
	}{
		{"1 private data of 31 bytes", func(_ *capsule.RequestData, r *fakeRequest) { r.private = r.private[:31] }, capsule.RejectInvalidLength},
		{"2 RECFMT", func(d *capsule.RequestData, _ *fakeRequest) { d.RECFMT = 1 }, capsule.RejectInvalidRECFMT},
		{"3 QID above the limit", func(d *capsule.RequestData, _ *fakeRequest) { d.QID = 129 }, capsule.RejectInvalidQID},
		{"4 HSQSIZE 0", func(d *capsule.RequestData, _ *fakeRequest) { d.HSQSIZE = 0 }, capsule.RejectInvalidHSQSIZE},
		{"4 HSQSIZE FFFFh", func(d *capsule.RequestData, _ *fakeRequest) { d.HSQSIZE = 0xffff }, capsule.RejectInvalidHSQSIZE},
		{"4 admin HSQSIZE 128", func(d *capsule.RequestData, _ *fakeRequest) { d.HSQSIZE = 128 }, capsule.RejectInvalidHSQSIZE},
		{"4 I/O HSQSIZE 128", func(d *capsule.RequestData, _ *fakeRequest) { d.QID, d.HSQSIZE = 1, 128 }, capsule.RejectInvalidHSQSIZE},
		{"5 HRQSIZE 0", func(d *capsule.RequestData, _ *fakeRequest) { d.HRQSIZE = 0 }, capsule.RejectInvalidHRQSIZE},
		{"6 no RDMA READ possible", func(_ *capsule.RequestData, r *fakeRequest) { r.depth = 0 }, capsule.RejectInvalidIRD},
		{"111 over the memory budget", func(d *capsule.RequestData, _ *fakeRequest) { d.QID, d.HSQSIZE = 1, 127; f.target.memory.set(1 << 20) }, capsule.RejectNoResources},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, r := good, &fakeRequest{private: make([]byte, rdmatransport.MaxRequestData), depth: 16, reject: make(chan []byte, 1)}
			c.change(&d, r)
			if len(r.private) >= capsule.RequestDataSize {
				d.Encode(r.private)
			}
			f.logs.TakeAll()
			f.device.listener.requests <- r
			got, err := capsule.DecodeRejectData(<-r.reject)
			if err != nil || got != (capsule.RejectData{STS: c.want}) {
				t.Errorf("rejected with %+v, %v; want %v", got, err, c.want)
			}
			lines := f.logs.FilterMessage("connection rejected").All()
			if len(lines) != 1 || lines[0].ContextMap()["status"] != c.want.String() {
				t.Errorf("logged %v", lines)
			}
			remedy, _ := lines[0].ContextMap()["remedy"].(string)
			if c.want == capsule.RejectInvalidHSQSIZE && strings.Contains(remedy, "admin queue") != (d.QID == 0) {
				t.Errorf("remedy %q", remedy)
			}
		})
	}
	f.target.memory.unset(1 << 20)
}

// TestFailedAccept: the provider has no queue pair left.
func TestFailedAccept(t *testing.T) {
	f := newFixture(t)
	if _, err := f.target.Listen(netip.MustParseAddrPort("192.0.2.1:4420")); err != nil {
		t.Fatal(err)
	}
	before := f.device.registered()
	r := &fakeRequest{private: make([]byte, 56), depth: 16, reject: make(chan []byte, 1)}
	capsule.RequestData{HRQSIZE: 32, HSQSIZE: 31}.Encode(r.private)
	f.device.listener.requests <- r
	if got, err := capsule.DecodeRejectData(<-r.reject); err != nil || got.STS != capsule.RejectNoResources {
		t.Errorf("rejected with %+v, %v", got, err)
	}
	if err := f.target.Close(); err != nil {
		t.Error(err)
	}
	if n := f.target.waiting.count(); n != 0 || f.device.registered() > before {
		t.Errorf("%d connections and %d regions are left", n, f.device.registered())
	}
}

func TestConfigIsJudged(t *testing.T) {
	for _, x := range []struct {
		what, names string
		Config
	}{
		{"too many shards", "5 shards", Config{Shards: 5}},
		{"queue depth 1", "Config.QueueDepth is 1:", Config{QueueDepth: 1}},
		{"queue depth 1025", "Config.QueueDepth is 1025:", Config{QueueDepth: 1025}},
		{"odd capsule", "Config.InCapsule", Config{InCapsule: 4097}},
		{"odd MaxData", "Config.MaxData", Config{MaxData: 5000}},
		{"large MaxData", "Config.MaxData", Config{MaxData: 2 << 20}},
		{"long revision", "Config.Firmware", Config{Firmware: "123456789"}},
		{"negative", "Config.MaxControllers is -1:", Config{MaxControllers: -1}},
		{"negative", "Config.MaxHostControllers", Config{MaxHostControllers: -1}},
		{"negative", "Config.MaxQueues", Config{MaxQueues: -1}},
		{"negative", "Config.QueueMemory", Config{QueueMemory: -1}},
		{"negative", "Config.BackendDepth", Config{BackendDepth: -1}},
		{"negative", "Config.Shards", Config{Shards: -1}},
		{"negative", "Config.Spin", Config{Spin: -1}},
		{"negative", "Config.Arena", Config{Arena: -1}},
		{"negative", "Config.SharedReceives", Config{SharedReceives: -1}},
		{"negative", "Config.ConnectTimeout", Config{ConnectTimeout: -1}},
		{"negative", "Config.AuthTimeout", Config{AuthTimeout: -1}},
		{"MaxSilent 1", "Config.MaxSilent", Config{MaxSilent: 1}},
	} {
		x.Device = newFakeDevice()
		if _, err := New(x.Config); err == nil || !strings.Contains(err.Error(), x.names) {
			t.Errorf("%s: %v, want %s", x.what, err, x.names)
		}
	}
	if _, err := newFixture(t).target.AddDevice(nil); err == nil {
		t.Error("no device is accepted")
	}
}

func TestSubsystemsAreJudged(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]SubsystemConfig{
		"no name":     {},
		"long name":   {NQN: nvmeof.NQN(strings.Repeat("n", 224))},
		"newline":     {NQN: "nqn.a\nb"},
		"exists":      {NQN: testSubNQN},
		"discovery":   {NQN: capsule.DiscoveryNQN},
		"long serial": {NQN: testSubNQN + "x", Serial: strings.Repeat("1", 21)},
	} {
		if _, err := f.target.AddSubsystem(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := f.sub.AddNamespace(NamespaceConfig{}); err == nil {
		t.Error("a namespace without a store is accepted")
	}
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: f.store, NSID: 1}); err == nil {
		t.Error("a second namespace 1 is accepted")
	}
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: f.store, NSID: storage.MaxNamespace + 1}); err == nil {
		t.Error("a namespace above NN is accepted")
	}
	if err := f.sub.RemoveNamespace(7); err == nil {
		t.Error("a namespace that is not there is removed")
	}
}
