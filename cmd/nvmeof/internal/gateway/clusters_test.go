package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A fakeCluster is a client of a cluster that does not exist.
type fakeCluster struct {
	address string
	fenced  []string
	refuses error
	closed  bool
	reached []string // pools
	holds   string   // a pool that executes no writes
	hangs   string   // a pool that does not answer
}

func (f *fakeCluster) AwaitFence(context.Context, ...string) error { return nil }
func (f *fakeCluster) Reach(ctx context.Context, pools ...string) error {
	f.reached = append(f.reached, pools...)
	if slices.Contains(pools, f.hangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.refuses
}
func (f *fakeCluster) Holding(ctx context.Context, pools ...string) (string, error) {
	if !slices.Contains(pools, f.holds) {
		return "", f.refuses
	}
	return f.holds, f.Reach(ctx, f.holds)
}
func (f *fakeCluster) Addresses() []string { return []string{f.address} }
func (f *fakeCluster) Close() error        { f.closed = true; return nil }
func (f *fakeCluster) Fence(_ context.Context, addresses []string, _ time.Duration) error {
	if f.refuses == nil {
		f.fenced = append(f.fenced, addresses...)
	}
	return f.refuses
}

// images is a document with an image by each of some clients.
func images(t *testing.T, ids ...string) *config.Document {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nsubsystems:\n  - nqn: nqn.2026-11.org.example:disks\n    allow-any-host: true\n    namespaces:\n")
	for i, id := range ids {
		fmt.Fprintf(&b, "      - {nsid: %d, rbd: {image: p/%d, id: %s}}\n", i+1, i, id)
	}
	doc, _, err := config.Parse("test", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// known makes clients by their names.
func known(all map[string]*fakeCluster) *clients {
	return &clients{dial: func(at rbd.ClientConfig) (cluster, error) {
		if c := all[at.ID]; c != nil {
			return c, nil
		}
		return nil, errors.New("no such client")
	}}
}

// TestExtend: a client that is made while the gateway runs repeats the fences of the others, and is used
// once the store has its address.
func TestExtend(t *testing.T) {
	all := map[string]*fakeCluster{"g": {address: "a"}, "x": {address: "b"}, "y": {address: "c", refuses: errors.New("refused")}}
	c := known(all)
	if _, more, err := c.extend(t.Context(), images(t, "x")); err != nil || more != nil {
		t.Errorf("before the incarnation: %v, %v", more, err)
	}
	first, err := c.connect(&config.Document{Group: config.Gateways{Store: "rados://p/g", ID: "g"}}, "i", func() {})
	if err != nil || !slices.Equal(first, []string{"a"}) {
		t.Fatalf("%v, %v", first, err)
	}
	for range 3 { // it is renewed
		if err := c.fence(t.Context(), []string{"dead"}); err != nil {
			t.Fatal(err)
		}
	}
	doc := images(t, "g", "x", "x", "y", "z")
	of, more, err := c.extend(t.Context(), doc)
	if of != "i" || !slices.Equal(more, []string{"a", "b"}) || err == nil || !strings.Contains(err.Error(), "no such client") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v, %v", more, err)
	}
	if !slices.Equal(all["x"].fenced, []string{"dead"}) || !all["y"].closed {
		t.Errorf("x has fenced %v; y is closed: %v", all["x"].fenced, all["y"].closed)
	}
	image := doc.Subsystems[0].Namespaces[1].RBD
	if _, err := c.openImage(image, 0); !errors.Is(err, errNewCluster) {
		t.Errorf("nobody can fence the client, but it opens an image: %v", err)
	}
	c.registered([]string{"a"})
	if _, again, _ := c.extend(t.Context(), doc); !slices.Equal(again, more) {
		t.Errorf("nobody was told, or heard, of %v, and is told of %v", more, again)
	}
	if _, err := c.openImage(image, 0); !errors.Is(err, errNewCluster) {
		t.Errorf("nobody can fence the client yet, but it opens an image: %v", err)
	}
	c.registered(more)
	if !c.all[clusterOf(image)].ready {
		t.Error("the client is not used")
	}
	if _, more, err := c.extend(t.Context(), images(t, "g", "x")); more != nil || err != nil {
		t.Errorf("%v, %v", more, err)
	}
	if err := c.add(t.Context(), clusterOf(image), c.begun-1); err != nil || !all["x"].closed {
		t.Errorf("a client of an incarnation that has ended: %v", err)
	}
}

// TestEtcdNeedsNoCluster: a gateway whose group is in etcd becomes a client with its first image.
func TestEtcdNeedsNoCluster(t *testing.T) {
	c := known(map[string]*fakeCluster{"x": {address: "b"}})
	if first, err := c.connect(&config.Document{Group: config.Gateways{Store: "etcd://127.0.0.1:1/g"}}, "i", func() {}); err != nil || len(first) > 0 {
		t.Fatalf("%v, %v", first, err)
	}
	if _, more, err := c.extend(t.Context(), images(t, "x")); err != nil || !slices.Equal(more, []string{"b"}) {
		t.Errorf("%v, %v", more, err)
	}
}

// TestClusterHangs: while a cluster does not answer as a client is made or closed, the goroutine of the engine, which
// calls registered, does not wait.
func TestClusterHangs(t *testing.T) {
	t.Parallel()
	hangs, answer := make(chan struct{}), make(chan struct{})
	x := &hungCluster{fakeCluster{address: "a"}, func() { hangs <- struct{}{}; <-answer }}
	c := &clients{dial: func(rbd.ClientConfig) (cluster, error) { x.hang(); return x, nil }}
	for what, do := range map[string]func(){
		"connect": func() {
			if _, err := c.connect(&config.Document{Group: config.Gateways{Store: "rados://p/g"}}, "i", func() {}); err != nil {
				t.Error(err)
			}
		},
		"close": func() {
			c.all = map[rbd.ClientConfig]*joined{{}: {cluster: x}}
			c.close()
		},
	} {
		ended := make(chan struct{})
		go func() { do(); close(ended) }()
		<-hangs
		asked := make(chan struct{})
		go func() { c.registered([]string{"a"}); close(asked) }()
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the engine waits for the cluster", what)
		}
		answer <- struct{}{}
		<-ended
	}
}

// A hungCluster is a client of a cluster that does not answer.
type hungCluster struct {
	fakeCluster
	hang func()
}

func (h *hungCluster) Close() error { h.hang(); return nil }

// TestTry: each client fences an address that nobody has, once.
func TestTry(t *testing.T) {
	x := &fakeCluster{address: "b"}
	c := known(map[string]*fakeCluster{"x": x})
	if _, err := c.connect(&config.Document{Group: config.Gateways{Store: "rados://p/g", ID: "x"}}, "i", func() {}); err != nil {
		t.Fatal(err)
	}
	x.refuses = errors.New("permission denied")
	if err := c.try(t.Context()); !errors.Is(err, x.refuses) {
		t.Errorf("%v", err)
	}
	for x.refuses = nil; len(x.fenced) == 0; {
		if err := c.try(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.try(t.Context()); err != nil || len(x.fenced) != 1 {
		t.Errorf("%v, %v", x.fenced, err)
	}
}

// A watched is a runner that records calls.
type watched struct{ stuck []bool }

func (w *watched) Storage(group.Incarnation, []string) {}
func (w *watched) Stuck(stuck bool)                    { w.stuck = append(w.stuck, stuck) }

// TestMonitor: a gateway that may not fence, has no open listener, or does not reach the storage raises an alarm once a minute. In
// the latter cases it is stuck, so that others serve its groups.
func TestMonitor(t *testing.T) {
	var said []string
	g := &Gateway{name: "gw1", cfg: Config{Log: zap.NewNop(), Alarm: func(a group.Alarm) { said = append(said, string(a.Kind)) }}, alarms: map[group.Alarm]time.Time{}}
	g.images.all = map[rbd.ClientConfig]*joined{{}: {cluster: &fakeCluster{refuses: errors.New("permission denied")}}}
	run := &watched{}
	w := &monitor{Gateway: g, run: run}
	for _, listeners := range []int{1, 0, 0, 1, 1} {
		w.fencing(t.Context())
		w.health(listeners, true)
	}
	if !slices.Equal(said, []string{"fence-fails", "serve-failed"}) || !slices.Equal(run.stuck, []bool{true, true, false}) {
		t.Errorf("%v, %v", said, run.stuck)
	}
	said, run.stuck, w.unfitSaid = nil, nil, time.Time{}
	for _, reaches := range []bool{true, false, false, true, true} {
		w.health(1, reaches)
	}
	if !slices.Equal(said, []string{"serve-failed"}) || !slices.Equal(run.stuck, []bool{true, true, false}) {
		t.Errorf("the storage does not answer: %v, %v", said, run.stuck)
	}
}

// TestTenderOfClusterThatHangs: while a cluster does not answer as its client is made, other gateways still learn that no
// host reaches this one.
func TestTenderOfClusterThatHangs(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	n := listen(t, store.Open(time.Second), "gw1", 20)
	asked, answer := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	n.images.dial = func(rbd.ClientConfig) (cluster, error) {
		ask()
		<-answer
		return nil, errors.New("no monitor answers")
	}
	n.begin()
	defer close(answer) // before the gateway ends
	if _, err := n.m.Apply(images(t, "x"), control.Options{}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if _, err := n.m.Edit(func(d *config.Document) error { d.Listeners = nil; return nil }, control.Options{Force: true}); err != nil {
		t.Fatal(err)
	}
	n.until(t, "no host reaches it", func(s *control.GroupStatus) bool { return len(s.Gateways) == 1 && s.Gateways[0].State == "sick" })
}

// TestChangedSilent: a gateway whose heartbeats were not seen yet is not reported as silent.
func TestChangedSilent(t *testing.T) {
	var said []string
	g := &Gateway{name: "gw1", cfg: Config{Log: zap.NewNop(), Joined: func(name, state string) { said = append(said, name+" "+state) }}, logged: map[int]bool{}}
	for _, alive := range []bool{false, true, false} {
		g.changed(group.Status{Gateways: []group.GatewayStatus{{Member: group.Member{Name: "gw2"}, Alive: alive}}})
	}
	if !slices.Equal(said, []string{"gw2 alive", "gw2 silent"}) {
		t.Errorf("%v", said)
	}
}
