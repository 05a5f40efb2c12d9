package target

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestPeers: listeners of other targets are in the logs of hosts that may use the subsystems there, with the
// generation of all targets, and hosts are notified.
func TestPeers(t *testing.T) {
	f, g := withGateway(t)
	f.listen("192.0.2.1:4420")
	keyed, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	f.must(err)
	f.must(keyed.SetHost(HostConfig{NQN: otherHostNQN, DHCHAPKey: newKey(t)}))
	keyed.SetPorts([]PortID{1, 3})
	a, b, stranger := f.follow(testHostNQN), f.follow(otherHostNQN), f.follow("nqn.2026-11.io.example:stranger")
	peers := []Peer{
		{Port: 3, Addr: netip.MustParseAddrPort("192.0.2.3:4420"), Provider: capsule.RDMAProviderRoCEv2},
		{Port: 2, Addr: netip.MustParseAddrPort("[2001:db8::2]:4421"), Subsystems: []nvmeof.NQN{testSubNQN, testSubNQN + "2"}},
	}
	f.must(g.SetPeers(peers, 700))
	a.notified(4)
	b.notified(4)
	stranger.untold()
	es, generation := b.admin.discover()
	want := "rdma ipv4 3 192.0.2.1 4420 " + capsule.DiscoveryNQN + "\nrdma ipv4 2 192.0.2.1 4420 " + testSubNQN + "2" +
		"\nrdma ipv6 2 2001:db8::2 4421 " + testSubNQN + "2\nrdma ipv4 2 192.0.2.3 4420 " + testSubNQN + "2"
	if got := summary(es); got != want || generation != 700 {
		t.Errorf("generation %d, and\n%s\nwant\n%s", generation, got, want)
	}
	if e := es[3]; e.PORTID != 3 || e.CNTLID != capsule.ControllerIDDynamic || e.RDMAPRType != capsule.RDMAProviderRoCEv2 ||
		e.TREQ != capsule.TREQNoFlowControl|capsule.TREQSecureRequired {
		t.Errorf("entry %+v", e)
	}
	for name, bad := range map[string][]Peer{
		"an identifier of this target": {{Port: 1, Addr: peers[0].Addr}}, "one identifier twice": {peers[0], peers[0]},
		"no address": {{Port: 4}}, "no identifier": {{Addr: peers[0].Addr}}, "every address": {{Port: 4, Addr: netip.MustParseAddrPort("0.0.0.0:4420")}},
	} {
		if g.SetPeers(bad, 800) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if l := f.listen("192.0.2.1:4422"); l.ID() != 4 {
		t.Errorf("a later listener gets the identifier %d", l.ID())
	}
	if n := len(g.Peers()); n != 2 {
		t.Errorf("%d peers", n)
	}
	if new(Gateway).SetPeers(nil, 1) == nil || new(Gateway).Peers() != nil {
		t.Error("a gateway of no target has peers")
	}
}

// TestControllerRange: controllers of all subsystems get identifiers of the target's range.
func TestControllerRange(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Controllers = ControllerRange{2041, 2060} })
	want := func(c capsule.ControllerID, least, most capsule.ControllerID) {
		t.Helper()
		if c < least || c > most {
			t.Errorf("controller %d: want %d to %d", c, least, most)
		}
	}
	at := f.listen("192.0.2.1:4420")
	want(f.associate(testHostNQN, at).id, 2041, 2060)
	h := f.connectDiscovery(testHostNQN)
	c, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
	f.must(err)
	want(c.CNTLID, 2041, 2060)
	f.must(f.sub.Configure(SubsystemConfig{MinController: 2051, MaxController: 9000}))
	want(f.associate(testHostNQN, at).id, 2051, 2060)
	if f.sub.Configure(SubsystemConfig{MinController: 1, MaxController: 2040}) == nil {
		t.Error("a range outside of the target's is taken")
	}
	if _, err := New(Config{Controllers: ControllerRange{2, 1}}); err == nil {
		t.Error("a range without identifiers is taken")
	}
}
