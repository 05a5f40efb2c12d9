package target

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/peerlog"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A follower is a host's persistent discovery controller.
type follower struct {
	*association
	aer        *hostCommand
	generation uint64
}

func (f *fixture) follow(host string) *follower {
	f.t.Helper()
	h := f.connectDiscovery(host)
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: capsule.EventDiscoveryChange}, nil))
	w := &follower{association: &association{f: f, admin: h}}
	_, w.generation = h.discover()
	w.aer = w.event()
	return w
}

// notified checks that there was an event, a new generation, and this number of entries.
func (w *follower) notified(entries int) {
	w.f.t.Helper()
	w.wantEvent(w.aer, capsule.NoticeDiscoveryChange, capsule.LogDiscovery)
	es, g := w.admin.discover()
	if len(es) != entries || g <= w.generation {
		w.f.t.Errorf("generation %d, before %d, with entries\n%s", g, w.generation, summary(es))
	}
	w.generation = g
	w.aer = w.event()
}

// untold checks that there was no event, and that the generation is the same.
func (w *follower) untold() {
	w.f.t.Helper()
	w.aer.wantPending()
	if _, g := w.admin.discover(); g != w.generation {
		w.f.t.Errorf("generation %d, before %d, though nothing changed for this host", g, w.generation)
	}
}

// TestDiscoveryEvents: each change notifies exactly the hosts whose logs it changes.
func TestDiscoveryEvents(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	a, b := f.follow(testHostNQN), f.follow(otherHostNQN)
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	f.must(err)
	a.untold()
	b.untold()
	s.AllowHost(otherHostNQN)
	b.notified(2)
	a.untold()
	f.must(s.SetHost(HostConfig{NQN: otherHostNQN, Access: AccessRead})) // does not change the log
	b.untold()
	s.AllowAnyHost(true)
	a.notified(3)
	b.untold()
	s.SetPorts([]PortID{2})
	a.notified(2)
	b.notified(1)
	f.listen("192.0.2.1:4421")
	a.notified(4) // its own subsystem twice
	b.notified(2)
	f.must(f.target.RemoveListener(2))
	a.notified(2)
	b.notified(1)
	s.RemoveHost(otherHostNQN) // nowhere is any host allowed
	b.untold()
	f.must(f.target.AddReferral(Referral{Addr: netip.MustParseAddrPort("192.0.2.9:8009"), Transport: capsule.TransportTCP, Secure: true}))
	a.notified(3)
	b.notified(2)
	es, _ := b.admin.discover()
	if r := es[1]; r.SUBTYPE != capsule.SubsystemReferral || r.TRTYPE != capsule.TransportTCP || r.TREQ != capsule.TREQSecureRequired ||
		!r.SubNQN.Is(capsule.DiscoveryNQN) || capsule.Text(r.TRADDR[:]) != "192.0.2.9" || capsule.Text(r.TRSVCID[:]) != "8009" || r.RDMAPRType != 0 {
		t.Errorf("referral %+v", r)
	}
	if es[0].EFLAGS != capsule.DiscoveryPersistent {
		t.Errorf("flags of the discovery subsystem %#x", es[0].EFLAGS)
	}
	f.must(f.target.RemoveReferral(Referral{Addr: netip.MustParseAddrPort("192.0.2.9:8009"), Transport: capsule.TransportTCP}))
	a.notified(2)
	b.notified(1)
	f.must(f.target.RemoveSubsystem(s.nqn))
	a.untold()
	f.must(f.target.RemoveSubsystem(f.sub.nqn))
	a.notified(1)
	b.untold()
}

func TestReferralsAreJudged(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	good := Referral{Addr: netip.MustParseAddrPort("192.0.2.2:4420")}
	f.must(f.target.AddReferral(good))
	for name, r := range map[string]Referral{
		"no address":  {},
		"any address": {Addr: netip.MustParseAddrPort("0.0.0.0:4420")},
		"port 0":      {Addr: netip.MustParseAddrPort("192.0.2.2:0")},
		"twice":       good,
		"itself":      {Addr: netip.MustParseAddrPort("192.0.2.1:4420")},
		"name":        {Addr: netip.MustParseAddrPort("192.0.2.3:4420"), NQN: "a\nb"},
	} {
		if f.target.AddReferral(r) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if f.target.RemoveReferral(Referral{Addr: netip.MustParseAddrPort("192.0.2.3:4420")}) == nil || len(f.target.Referrals()) != 1 {
		t.Errorf("referrals %v", f.target.Referrals())
	}
}

// TestDiscoveryReadInParts is row 93: the parts are equal to those of the whole log, whatever their size. A change
// between two reads shows in the generation.
func TestDiscoveryReadInParts(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	f.listen("192.0.2.1:4421")
	h := f.connectDiscovery(testHostNQN)
	whole := logInto(h, capsule.LogDiscovery, 4*1024, 0)
	for _, n := range []int{4, 20, 512, 1000, 1024, 1028, 2044} {
		var parts []byte
		for at := 0; at < len(whole); at += n {
			parts = append(parts, logInto(h, capsule.LogDiscovery, n, uint64(at))[:min(n, len(whole)-at)]...)
		}
		if string(parts) != string(whole) {
			t.Errorf("in parts of %d bytes the log is another", n)
		}
	}
	past := func(offset uint64) *hostCommand {
		return adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogDiscovery, Length: 512, LPO: offset}, make([]byte, 512))
	}
	h.wantOK(past(4096)) // the end
	for _, offset := range []uint64{4097, 4100, 1 << 63, 1<<64 - 4} {
		h.wantStatus(invalidField, past(offset))
	}
	before, _ := capsule.DecodeDiscoveryHeader(whole)
	f.sub.RemoveHost(testHostNQN)
	after, _ := capsule.DecodeDiscoveryHeader(logInto(h, capsule.LogDiscovery, 20, 0))
	if after.GENCTR == before.GENCTR || after.NUMREC != 1 {
		t.Errorf("header %+v, then %+v", before, after)
	}
}

// TestUniqueDiscoveryNQN: both names reach the discovery subsystem, and Identify and the log report its own one.
func TestUniqueDiscoveryNQN(t *testing.T) {
	const name = "nqn.2026-11.io.example:discovery"
	f := newFixture(t, func(c *Config) { c.DiscoveryNQN = name })
	f.listen("192.0.2.1:4420")
	for _, nqn := range []nvmeof.NQN{name, capsule.DiscoveryNQN} {
		d := dataOf(nqn, testHostNQN)
		h := f.dial(0, 0, 32)
		h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
		h.setCC(linuxCC)
		h.setCC(linuxCC.WithEnable(true))
		c, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
		f.must(err)
		if es, _ := h.discover(); !c.SubNQN.Is(name) || !es[0].SubNQN.Is(name) {
			t.Errorf("Identify says %v, the log\n%s", c.SubNQN.String(), summary(es))
		}
	}
	if _, err := f.target.AddSubsystem(SubsystemConfig{NQN: name}); err == nil {
		t.Error("a subsystem of that name is accepted")
	}
	if _, err := New(Config{Device: newFakeDevice(), DiscoveryNQN: "a\nb"}); err == nil {
		t.Error("an invalid name is accepted")
	}
}

// TestDiscoveryLifetime: a persistent controller lives as long as its keep alive timer does, another one as long
// as it sends commands.
func TestDiscoveryLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		d := dataOf(capsule.DiscoveryNQN, testHostNQN)
		persistent, other := f.dial(0, 0, 32), f.dial(0, 1, 32)
		persistent.wantOK(connectCommand(capsule.Connect{SQSIZE: 31, KATO: 30000}, d))
		other.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
		for _, h := range []*hostQueue{persistent, other} {
			h.setCC(linuxCC.WithEnable(true))
		}
		began, ended := time.Now(), time.Duration(0)
		other.wantStatus(capsule.StatusKeepAliveInvalid|dnr, adminCommand(capsule.AdminKeepAlive, nil, nil))
		for range 60 {
			time.Sleep(10 * time.Second)
			persistent.wantOK(adminCommand(capsule.AdminKeepAlive, nil, nil))
			select {
			case <-other.closed:
				if ended == 0 {
					ended = time.Since(began)
				}
			default:
			}
		}
		if ended < discoveryTimeout || ended > 3*discoveryTimeout {
			t.Errorf("a silent discovery controller lasts for %v", ended)
		}
		persistent.property(capsule.PropertyCAP)
		<-persistent.closed
		f.close2(t)
	})
}

// TestProviderInTheLog: every entry has the device's protocol.
func TestProviderInTheLog(t *testing.T) {
	d := &Device{attrs: rdmatransport.Attrs{Provider: "softroce"}}
	l := newListener(d, nil, port{1, netip.MustParseAddrPort("192.0.2.1:4420")}, nil)
	r := l.record(capsule.SubsystemNVM, testSubNQN)
	if e := r.Entry(netip.Addr{}); e.RDMAPRType != capsule.RDMAProviderRoCEv2 {
		t.Errorf("entry %+v", e)
	}
}

// TestDiscoveryFlood is row 94: an address that connects too often gets a status that it retries, others do not,
// and nothing is left behind.
func TestDiscoveryFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.listen("192.0.2.1:4420")
		d := dataOf(capsule.DiscoveryNQN, testHostNQN)
		connect := func() capsule.Status {
			h := f.dial(0, 0, 32)
			status := h.do(connectCommand(capsule.Connect{SQSIZE: 31}, d)).status
			h.fail(rdmatransport.ErrDisconnected)
			<-h.closed
			return status
		}
		seen := map[capsule.Status]int{}
		for range 1000 {
			seen[connect()]++
		}
		if seen[capsule.StatusSuccess] != arrivalsPerSecond || seen[capsule.StatusConnectControllerBusy] != 1000-arrivalsPerSecond {
			t.Errorf("answers %v", seen)
		}
		if n := f.logged("connect refused"); n == 0 || n > peerlog.Troubles {
			t.Errorf("%d lines", n)
		}
		f.connectAdmin(0) // other subsystems have no such limit
		time.Sleep(time.Second)
		if s := connect(); s != capsule.StatusSuccess {
			t.Errorf("a second later: %v", s)
		}
		if n := len(f.target.discSub.controllers); n != 0 {
			t.Errorf("%d controllers are left", n)
		}
		f.close2(t)
	})
}

// TestDiscoveryOfHostsWithKeys: TREQ is set for hosts that have to authenticate, and only for those; it changes
// with the key.
func TestDiscoveryOfHostsWithKeys(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	f.must(f.sub.SetHost(HostConfig{NQN: otherHostNQN, DHCHAPKey: newKey(t)}))
	a, b := f.follow(testHostNQN), f.follow(otherHostNQN)
	treq := func(w *follower, want uint8) {
		t.Helper()
		es, _ := w.admin.discover()
		if got := es[1].TREQ; got != want|capsule.TREQNoFlowControl {
			t.Errorf("TREQ %#x", got)
		}
	}
	treq(a, 0)
	treq(b, capsule.TREQSecureRequired)
	f.must(f.sub.SetHost(HostConfig{NQN: otherHostNQN}))
	b.notified(2)
	a.untold()
	treq(b, 0)
	f.must(f.sub.SetAccess(otherHostNQN, 1, AccessRead))
	b.untold()
}
