package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A node is a gateway with its target and manager.
type node struct {
	*Gateway
	m     *control.Manager
	end   context.CancelFunc
	ended chan error
}

// start makes a gateway over a store, and runs it.
func start(t *testing.T, s state.Store, name string, last byte) *node {
	t.Helper()
	n := listen(t, s, name, last)
	n.begin()
	return n
}

// complete opens a gateway over a store, and makes a target for it.
func complete(t testing.TB, s state.Store, doc *config.Document) (*Gateway, control.Config) {
	t.Helper()
	g, err := Open(t.Context(), Config{Document: doc, Log: zap.NewNop(), Store: s,
		LeaseTerm: 3 * time.Second, Settle: time.Second, OrderTime: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	tgt, err := target.New(target.Config{Arena: 4 << 20, Controllers: g.Controllers(), Gateway: g.Owned()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := control.Config{Target: tgt, Settings: doc, Open: control.OpenStore}
	g.Complete(&cfg)
	return g, cfg
}

// listen makes a gateway over a store, to which hosts can connect.
func listen(t *testing.T, s state.Store, name string, last byte, change ...func(*control.Config)) *node {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 104, byte(os.Getpid() % 250), last})
	doc, _, err := config.Parse("test", fmt.Appendf(nil, "version: 1\ngroup: {store: etcd://127.0.0.1/g, gateway: %s}\nlisteners: [{id: 1, address: %v}]\n", name, addr))
	if err != nil {
		t.Fatal(err)
	}
	g, cfg := complete(t, s, doc)
	cfg.Device = func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
		return softroce.Open(softroce.Config{Addr: a})
	}
	for _, f := range change {
		f(&cfg)
	}
	n := &node{Gateway: g, m: control.New(cfg), ended: make(chan error, 1)}
	if _, err := n.m.Apply(doc, control.Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	return n
}

// begin runs the gateway.
func (n *node) begin() {
	ctx, end := context.WithCancel(context.Background())
	n.end = end
	go func() { n.ended <- n.Run(ctx, n.m) }() // until stop
}

// stop may be called twice.
func (n *node) stop() {
	if n.end == nil {
		return
	}
	n.end()
	n.end = nil
	<-n.ended
	_ = n.m.Close()
	_ = n.Close()
}

// until waits until a gateway's status satisfies a condition.
func (n *node) until(t *testing.T, what string, ok func(*control.GroupStatus) bool) {
	t.Helper()
	var s control.GroupStatus
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s = n.Status(); ok(&s) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v", what, s)
		}
	}
}

// serves returns the number of ANA groups that a gateway owns.
func serves(s *control.GroupStatus, name string) int {
	for _, g := range s.Gateways {
		if g.Name == name {
			return g.Groups
		}
	}
	return -1
}

// TestGateways has two gateways share what they serve, one of them drained, resumed and stopped.
func TestGateways(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a, b := start(t, store.Open(time.Second), "gw1", 1), start(t, store.Open(time.Second), "gw2", 2)
	if x, y := a.Controllers(), b.Controllers(); x.Last >= y.First && y.Last >= x.First {
		t.Errorf("controllers %v and %v", x, y)
	}
	if _, err := a.m.Apply(document(t), control.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		n.until(t, "each serves a half", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 2 && serves(s, "gw2") == 2 })
	}
	order := func(n *node, o control.Order) {
		t.Helper()
		if err := n.Order(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	order(b, control.Order{Kind: control.DrainGateway, Gateway: "gw1"})
	a.until(t, "gw1 is drained", func(s *control.GroupStatus) bool { return serves(s, "gw2") == 4 && serves(s, "gw1") == 0 })
	if owned := a.Owned().Owned(); len(owned) > 0 {
		t.Errorf("it serves %v", owned)
	}
	order(a, control.Order{Kind: control.ResumeGateway, Gateway: "gw1"})
	a.until(t, "gw1 serves again", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 2 })
	first := a.Status().Groups[0]
	to := map[string]string{"gw1": "gw2", "gw2": "gw1"}[first.Owner]
	order(a, control.Order{Kind: control.MoveGroup, Gateway: to, Group: first.Group})
	b.until(t, "the group has moved", func(s *control.GroupStatus) bool { return s.Groups[0].Owner == to && s.Groups[0].Moving == "" })
	b.stop()
	a.until(t, "gw1 has all", func(s *control.GroupStatus) bool {
		return serves(s, "gw1") == 4 && s.Gateways[1].State == "ended"
	})
	const other = directoryPrefix + "gw22"
	if _, err := a.store.Txn(t.Context(), state.Txn{Then: []state.Op{{Key: directoryPrefix + "gw2", Value: []byte("{}")}, {Key: other, Value: []byte("{}")}}}); err != nil {
		t.Fatal(err)
	}
	if said, err := writtenBy(t.Context(), a.store, "gw2"); err != nil || len(said) != 2 {
		t.Errorf("gw2 has said %v, %v", said, err)
	}
	order(a, control.Order{Kind: control.RemoveGateway, Gateway: "gw2"})
	if all, err := a.store.Get(t.Context(), other); err != nil || len(all.Entries) != 1 {
		t.Errorf("of another gateway there is %v, %v", all.Entries, err)
	}
	a.until(t, "gw2 is forgotten", func(s *control.GroupStatus) bool { return serves(s, "gw2") == -1 })
	if said, err := writtenBy(t.Context(), a.store, "gw2"); err != nil || len(said) > 0 {
		t.Errorf("of gw2 there is still %v, %v", said, err)
	}
	for _, o := range []control.Order{{Kind: control.MoveGroup, Gateway: "gw1", Group: 129}, {Kind: control.DrainGateway, Gateway: "x"}, {Kind: control.FailGateway, Gateway: "gw1"}} {
		if err := a.Order(t.Context(), o); err == nil {
			t.Errorf("%+v is carried out", o)
		}
	}
	a.stop()
	if err := a.Order(t.Context(), control.Order{Kind: control.DrainGateway, Gateway: "gw1"}); err == nil {
		t.Error("a gateway that has ended takes orders")
	}
}

// document has four namespaces in files that a lease protects.
func document(t *testing.T) *config.Document {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nsubsystems:\n  - nqn: a\n    hosts: [{nqn: h}]\n    namespaces:\n")
	for id := 1; id <= 4; id++ {
		name := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "      - {nsid: %d, file: {path: %s}, fence: lease}\n", id, name)
	}
	doc, _, err := config.Parse("shared", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestImages: without a client of a cluster no gateway can be fenced, and no image opened.
func TestImages(t *testing.T) {
	c := new(clients)
	if err := c.fence(t.Context(), []string{"192.0.2.1:0/1"}); err == nil {
		t.Error("it has fenced somebody")
	}
	if _, err := c.openImage(&config.RBD{Image: "p/i"}, 0); err == nil {
		t.Error("it has opened an image")
	}
	doc := &config.Document{Group: config.Gateways{Store: "rados://p/g"}}
	if _, err := c.connect(doc, "i", func() {}); err == nil {
		t.Skip("there is a cluster of Ceph here")
	}
	c.close()
}

func TestOpenStore(t *testing.T) {
	for _, test := range []struct {
		g    config.Gateways
		want string
	}{
		{config.Gateways{Store: "etcd://127.0.0.1:1/g"}, ""},
		{config.Gateways{Store: "etcd://127.0.0.1:1/g", TLS: config.GroupTLS{Authority: "/missing"}}, "missing"},
		{config.Gateways{Store: "etcd://127.0.0.1:1/g", User: "u", PasswordFile: "/missing"}, "password of the group's store"},
		{config.Gateways{Store: "x"}, "want etcd://"},
	} {
		s, err := openStore(t.Context(), &test.g, zap.NewNop())
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.g, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

func TestAddresses(t *testing.T) {
	doc, _, err := config.Parse("test", []byte("version: 1\nlisteners: [{id: 1, address: 192.0.2.1}, {id: 2, address: '0.0.0.0:4421'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := addresses(doc)
	if all[0] != "192.0.2.1:4420" {
		t.Errorf("%v", all)
	}
	for _, a := range all[1:] {
		if !strings.HasSuffix(a, ":4421") || strings.HasPrefix(a, "0.") {
			t.Errorf("%v", all)
		}
	}
}

// TestAlarms: each alarm is logged once, and listed while it is repeated.
func TestAlarms(t *testing.T) {
	said := 0
	g := &Gateway{cfg: Config{Log: zap.NewNop(), Alarm: func(group.Alarm) { said++ }}, alarms: map[group.Alarm]time.Time{}}
	a := group.Alarm{Kind: group.AlarmFence, Gateway: "gw2", Group: 3, Text: "no monitor answers"}
	g.alarm(a)
	g.alarm(a)
	g.alarm(group.Alarm{Text: "another"})
	if all := g.alarmed(); said != 2 || len(all) != 2 || all[1] != (control.GroupAlarm{Kind: string(a.Kind), Gateway: "gw2", Group: 3, Text: a.Text}) {
		t.Errorf("%d times: %+v", said, all)
	}
	g.alarms[a] = time.Now().Add(-2 * alarmTime)
	if all := g.alarmed(); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	g.alarm(a)
	g.alarms[a] = time.Now().Add(-2 * alarmTime)
	if g.alarm(a); said != 4 {
		t.Errorf("one that comes again after a while is said %d times", said-2)
	}
	if s := g.Status(); len(s.Gateways) > 0 {
		t.Errorf("a gateway that does not run knows %+v", s)
	}
}

func TestStateOf(t *testing.T) {
	for want, x := range map[string]group.GatewayStatus{
		"ended":    {Member: group.Member{Ended: true}},
		"silent":   {},
		"unknown":  {Unknown: true},
		"leaving":  {Alive: true, Member: group.Member{Leaving: true}},
		"sick":     {Alive: true, Beat: group.Beat{Sick: true}},
		"starting": {Alive: true, Beat: group.Beat{Sick: true, Starting: true}},
		"drained":  {Alive: true, Drained: true},
		"alive":    {Alive: true},
	} {
		if got := stateOf(&x); got != want {
			t.Errorf("%+v is %s, want %s", x, got, want)
		}
	}
}

// TestStop: the stores of a group that was lost are closed, and the group can be served again.
func TestStop(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(2, 1))))
	a := start(t, store.Open(time.Second), "gw1", 3)
	if _, err := a.m.Apply(document(t), control.Options{}); err != nil {
		t.Fatal(err)
	}
	a.until(t, "it serves all", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 4 && s.Groups[3].Served })
	at := a.Status().Groups[0]
	s := (*served)(a.Gateway)
	s.Stop(group.ID(at.Group), at.Epoch)
	if a.Owned().Serves(capsule.ANAGroup(at.Group)) {
		t.Error("it serves the group")
	}
	if err := s.Serve(t.Context(), group.ID(at.Group), at.Epoch, group.Lease); err != nil {
		t.Error(err)
	}
	if !a.Owned().Serves(capsule.ANAGroup(at.Group)) {
		t.Error("it does not serve the group")
	}
	if err := s.Fence(t.Context(), group.Fence{Storage: []string{"192.0.2.1:0/1"}}); err == nil {
		t.Error("it has fenced somebody without a cluster")
	}
}

// TestOpen: a gateway needs its group's store, and has the machine's name by default.
func TestOpen(t *testing.T) {
	t.Parallel()
	doc := &config.Document{Version: 1, Group: config.Gateways{Store: "etcd://127.0.0.1:1/g"}}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Config{Document: doc, Log: zap.NewNop()}); err == nil || !strings.Contains(err.Error(), doc.Group.Store) {
		t.Error(err)
	}
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(3, 1)))).Open(time.Second)
	for i := range 32 {
		if slot, err := claim(t.Context(), store, fmt.Sprint("gw", i)); slot != i+1 || err != nil {
			t.Fatal(slot, err)
		}
	}
	if _, err := Open(t.Context(), Config{Document: doc, Log: zap.NewNop(), Store: store}); err == nil || !strings.Contains(err.Error(), "gateway remove") {
		t.Error(err)
	}
	doc.Group.Store = "x"
	if _, err := Open(t.Context(), Config{Document: doc, Log: zap.NewNop()}); err == nil {
		t.Error("it has opened x")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name")
	}
	doc.Group.Gateway = "gw5"
	store = simulated.Share(simulated.New(rand.New(rand.NewPCG(4, 1)))).Open(time.Second)
	for want, name := range map[string]string{"gw5": "gw5", host: ""} {
		doc.Group.Gateway = name
		g, err := Open(t.Context(), Config{Document: doc, Log: zap.NewNop(), Store: store})
		if err != nil || g.Name() != want {
			t.Errorf("%v, %v", g, err)
		}
	}
}
