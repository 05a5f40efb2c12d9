package control

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A gatewayRig is a Manager of one of several targets.
type gatewayRig struct {
	*rig
	gateway *target.Gateway
}

func newGatewayRig(t *testing.T, dir string, change ...func(*Config)) *gatewayRig {
	g := &gatewayRig{gateway: new(target.Gateway)}
	g.rig = newRig(t, append(change, func(c *Config) {
		if err := c.Target.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.Target, err = target.New(target.Config{Log: zap.NewNop(), Arena: 4 << 20, Gateway: g.gateway}); err != nil {
			t.Fatal(err)
		}
		c.Gateway = g.gateway
	})...)
	g.dir = dir
	return g
}

// set applies a document.
func (g *gatewayRig) set(text string) {
	g.t.Helper()
	if _, err := g.Apply(g.doc(text), Options{Force: true}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gatewayRig) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// open returns the UUIDs of the namespaces whose stores are open.
func (g *gatewayRig) open() map[capsule.NSID]string {
	all := map[capsule.NSID]string{}
	for _, n := range g.target.Subsystems()[0].Namespaces() {
		all[n.ID()] = n.UUID().String()
	}
	return all
}

func (g *gatewayRig) wantOpen(want ...capsule.NSID) {
	g.t.Helper()
	all := g.open()
	var got []capsule.NSID
	for id := range all {
		got = append(got, id)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		g.t.Errorf("open are %v, want %v", got, want)
	}
}

// why returns why a namespace waits; empty: it does not.
func (g *gatewayRig) why(nsid int) string {
	for _, w := range g.Status().Waiting {
		if w.NSID == nsid {
			return w.Why
		}
	}
	return ""
}

const shared = `version: 1
subsystems:
  - nqn: a
    namespaces:
      - nsid: 1
        file: {path: DIR/one, size: 1MiB}
      - nsid: 2
        file: {path: DIR/two}
        ana-group: 2
      - nsid: 3
        file: {path: DIR/three}
`

// sharedFiles creates the files of the document.
func sharedFiles(t *testing.T) (dir string) {
	dir = t.TempDir()
	for _, name := range []string{"one", "two", "three"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGroupMoves: two targets have one document. What one serves, the other does not open. When one has given a
// group back, the other serves it with the same identity.
func TestGroupMoves(t *testing.T) {
	dir := sharedFiles(t)
	a, b := newGatewayRig(t, dir), newGatewayRig(t, dir)
	ctx := t.Context()
	for _, g := range []*gatewayRig{a, b} {
		g.set(shared)
		g.wantOpen()
	}
	a.must(ServeGroup(ctx, a.Manager, 1, 1))
	a.must(ServeGroup(ctx, a.Manager, 2, 1))
	a.wantOpen(1, 2, 3)
	if s := a.Status().Gateway; s == nil || !s.Serves(2) || s.Serves(3) || len(s.Groups) != 2 || s.Groups[0] != (ServedGroup{1, 1}) {
		t.Errorf("status %+v", s)
	}
	ids := a.open()
	b.must(ServeGroup(ctx, b.Manager, 1, 2)) // by mistake: the files are locked
	b.wantOpen()
	if why := b.why(1); !strings.Contains(why, "one") {
		t.Errorf("the namespace waits for %q", why)
	}
	b.must(DrainGroup(ctx, b.Manager, 1))
	a.must(DrainGroup(ctx, a.Manager, 1))
	a.wantOpen(2)
	b.must(ServeGroup(ctx, b.Manager, 1, 3))
	b.wantOpen(1, 3)
	if got := b.open(); got[1] != ids[1] || got[3] != ids[3] {
		t.Errorf("identifiers %v, and at the other target %v", got, ids)
	}
	a.gateway.Fence("a test")
	a.must(ReleaseGroup(ctx, a.Manager, 2))
	a.wantOpen()
	b.must(ServeGroup(ctx, b.Manager, 2, 2))
	b.wantOpen(1, 2, 3)
	if a.Status().Gateway.Fenced != "a test" || ServeGroup(ctx, a.Manager, 2, 3) == nil {
		t.Error("a target that is fenced serves")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if ServeGroup(gone, a.Manager, 2, 3) == nil {
		t.Error("a group is served though its context has ended")
	}
}

// TestGroupChanges: the document changes while others serve its namespaces.
func TestGroupChanges(t *testing.T) {
	g := newGatewayRig(t, sharedFiles(t))
	g.set(shared)
	g.must(ServeGroup(t.Context(), g.Manager, 2, 1))
	g.wantOpen(2)
	g.set(strings.Replace(shared, "nsid: 3", "nsid: 3\n        ana-group: 2", 1))
	g.wantOpen(2, 3)
	g.set(strings.Replace(shared, "ana-group: 2", "ana-group: 1\n        read-only: true", 1))
	g.wantOpen()
	g.set(strings.Replace(shared, "size: 1MiB", "size: 2MiB", 1))
	g.wantOpen(2)
	g.set(shared[:strings.Index(shared, "      - nsid: 3")])
	g.wantOpen(2)
	g.set(shared)
	g.must(ServeGroup(t.Context(), g.Manager, 1, 1))
	g.wantOpen(1, 2, 3)
	g.set(strings.Replace(shared, "nsid: 3", "nsid: 4", 1))
	g.wantOpen(1, 2, 4)
	if s := newRig(t); ServeGroup(t.Context(), s.Manager, 1, 1) == nil || DrainGroup(t.Context(), s.Manager, 1) == nil || s.Status().Gateway != nil {
		t.Error("a target that serves all is one of several")
	}
}

// TestGroupNotKnown: hosts see a namespace with unknown properties as not ready until they are known.
func TestGroupNotKnown(t *testing.T) {
	g := newGatewayRig(t, t.TempDir())
	g.set(shared)
	if why := g.why(2); !strings.Contains(why, "another target serves it") || !strings.Contains(why, "two") {
		t.Errorf("the namespace waits for %q", why)
	}
	g.must(os.WriteFile(filepath.Join(g.dir, "two"), make([]byte, 1<<20), 0o600))
	if !probeAgain(t.Context(), g.Manager, namespaceKey{"a", 2}) || g.why(2) != "" {
		t.Errorf("the namespace waits for %q", g.why(2))
	}
	size := func() int64 {
		for _, n := range g.target.Measure().Subsystems[0].Namespaces {
			if n.NSID == 2 && n.Ready {
				return n.Size
			}
		}
		return 0
	}
	g.must(os.Truncate(filepath.Join(g.dir, "two"), 2<<20)) // by the target that serves it
	if RefreshForeign(g.Manager, 2); size() != 2<<20 {
		t.Errorf("hosts are told of %d bytes", size())
	}
	g.must(ServeGroup(t.Context(), g.Manager, 2, 1))
	g.wantOpen(2)
}

// TestProbe: the probed properties of a store are those that it has when it is open.
func TestProbe(t *testing.T) {
	dir := sharedFiles(t)
	for _, n := range []*config.Namespace{
		{NSID: 1, File: &config.File{Path: config.Path(filepath.Join(dir, "one"))}},
		{NSID: 1, File: &config.File{Path: config.Path(filepath.Join(dir, "one")), Size: 2 << 20, Thin: true}, BlockSize: 4096},
		{NSID: 1, File: &config.File{Path: config.Path(filepath.Join(dir, "two")), ReadOnly: true}},
		{NSID: 1, Memory: &config.Memory{Size: 1 << 20}},
	} {
		p, err := ProbeStore(n)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := OpenStore(n, new(memory.Pool))
		if err != nil {
			t.Fatal(err)
		}
		again, err := ProbeStore(n)
		if info := s.Info(); err != nil || p.Info.Size != info.Size || p.Info.BlockSize != info.BlockSize || p.Info.ReadOnly != info.ReadOnly || again.Info.Size != info.Size {
			t.Errorf("%+v, %+v when it is open (%v), and it is %+v", p.Info, again.Info, err, info)
		}
		if m, ok := s.(backend.Marked); ok && n.File != nil && string(m.Mark()) != string(again.Mark) {
			t.Errorf("marks %x and %x", m.Mark(), again.Mark)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []*config.Namespace{{Block: &config.Block{Path: config.Path(dir)}}, {File: &config.File{Path: config.Path(dir)}},
		{RBD: &config.RBD{Image: "none"}}} {
		if _, err := ProbeStore(n); err == nil {
			t.Errorf("something is known of %v", n.Path())
		}
	}
}

// A slowToClose store reports that it is being closed, and blocks until it may be.
type slowToClose struct {
	backend.Store
	closing chan<- config.Path
	may     <-chan struct{}
	path    config.Path
}

func (s slowToClose) Close() error {
	s.closing <- s.path
	<-s.may
	return s.Store.Close()
}

// TestClosingDelaysNobody: groups are closed at the same time, since each may wait for another machine, and
// meanwhile the Manager answers other calls.
func TestClosingDelaysNobody(t *testing.T) {
	closing, may := make(chan config.Path, 3), make(chan struct{})
	g := newGatewayRig(t, sharedFiles(t), func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := OpenStore(n, pool)
			return slowToClose{s, closing, may, n.Path()}, notes, err
		}
	})
	g.set(shared)
	ctx := t.Context()
	drained := make(chan error, 2)
	for _, group := range []capsule.ANAGroup{1, 2} {
		g.must(ServeGroup(ctx, g.Manager, group, 1))
	}
	for _, group := range []capsule.ANAGroup{1, 2} {
		go func() { drained <- DrainGroup(ctx, g.Manager, group) }() // ends when its stores are closed
	}
	for range 3 {
		<-closing
	}
	g.Status()
	if len(drained) != 0 {
		t.Error("a group is given back before its stores are closed")
	}
	close(may)
	for range 2 {
		g.must(<-drained)
	}
	g.must(ServeGroup(ctx, g.Manager, 2, 2))
	g.wantOpen(2)
}
