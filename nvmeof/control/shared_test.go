package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A fakeGroup has one document for several managers.
type fakeGroup struct {
	mu       sync.Mutex
	revision int64
	doc      *config.Document
	err      error
	before   func()       // called when a document is proposed; then cleared
	late     error        // why a revision is not enforced everywhere
	awaited  int64        // the last revision that was waited for
	at       NamespaceRef // and its namespace
}

func (g *fakeGroup) Followed(_ context.Context, revision int64, at NamespaceRef) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.awaited, g.at = revision, at
	return g.late
}

func (g *fakeGroup) Propose(_ context.Context, base int64, doc *config.Document) (int64, error) {
	g.mu.Lock()
	before := g.before
	g.before = nil
	g.mu.Unlock()
	if before != nil {
		before()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return 0, g.err
	case base != g.revision:
		return 0, &ConflictError{base}
	}
	g.revision++
	g.doc = doc.Clone()
	return g.revision, nil
}

func (g *fakeGroup) Latest(context.Context) (int64, *config.Document, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, nil, g.err
	}
	if g.doc == nil {
		return 0, new(config.Document), nil
	}
	return g.revision, g.doc.Clone(), nil
}

const gatewayDoc = "version: 1\ngroup: {store: etcd://127.0.0.1/g}\nlisteners: [{id: 1, address: ADDR}]\n"

// newGateway returns a rig of a gateway, which follows the group.
func newGateway(t *testing.T, g *fakeGroup) *rig {
	t.Helper()
	r := newRig(t, func(c *Config) {
		c.Group = g
		c.Settings.Group.Store = "etcd://127.0.0.1/g"
	})
	if _, err := r.Apply(r.doc(gatewayDoc), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(t.Context(), r.Manager); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) follow(want int64) {
	r.t.Helper()
	if got, err := Follow(r.t.Context(), r.Manager); err != nil || got != want {
		r.t.Errorf("it follows revision %d, %v, want %d", got, err, want)
	}
}

// sharedDoc returns the document that gateways share, with files in a folder.
func sharedDoc(t *testing.T, dir string, ids ...int) *config.Document {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nsubsystems:\n  - nqn: a\n    hosts: [{nqn: h}]\n    namespaces:\n")
	for _, id := range ids {
		name := filepath.Join(dir, fmt.Sprint(id))
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

// TestGroupVersion: a gateway does not apply a document of a later version.
func TestGroupVersion(t *testing.T) {
	g := new(fakeGroup)
	a := newGateway(t, g)
	if _, err := a.Apply(sharedDoc(t, t.TempDir(), 1), Options{}); err != nil {
		t.Fatal(err)
	}
	g.doc.Version, g.revision = config.Version+1, 2
	if n, err := Follow(t.Context(), a.Manager); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("it follows revision %d, %v", n, err)
	}
	if n, _ := Revision(a.Manager); n != 1 {
		t.Errorf("it has revision %d", n)
	}
}

// TestGatewaysShare: all gateways have a change of one, and each keeps what is its own.
func TestGatewaysShare(t *testing.T) {
	g := new(fakeGroup)
	a, b := newGateway(t, g), newGateway(t, g)
	if g.revision != 0 {
		t.Fatalf("a start has made revision %d", g.revision)
	}
	if _, err := a.Apply(sharedDoc(t, t.TempDir(), 1, 2), Options{}); err != nil {
		t.Fatal(err)
	}
	b.follow(1)
	for _, r := range []*rig{a, b} {
		doc := r.Document()
		if len(doc.Subsystems) != 1 || len(doc.Subsystems[0].Namespaces) != 2 || doc.Listeners[0].Address.Addr() != r.addr {
			t.Errorf("%s", doc.YAML())
		}
	}
	if x, y := a.Document().Shared(), b.Document().Shared(); len(config.Diff(x, y)) > 0 || x.Subsystems[0].Namespaces[0].ANAGroup == 0 {
		t.Errorf("%s%s", x.YAML(), y.YAML())
	}
	// An edit is made again if another gateway has changed the document meanwhile.
	g.before = func() {
		if _, err := b.Edit(func(d *config.Document) error { d.Subsystems[0].Namespaces[1].ReadOnly = true; return nil }, Options{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Edit(func(d *config.Document) error { d.Subsystems[0].Namespaces[0].ReadOnly = true; return nil }, Options{}); err != nil {
		t.Fatal(err)
	}
	b.follow(3)
	for _, r := range []*rig{a, b} {
		if n := r.Document().Subsystems[0].Namespaces; !n[0].ReadOnly || !n[1].ReadOnly {
			t.Errorf("%s", r.Document().YAML())
		}
	}
	// A gateway's own settings are not shared, and make no revision.
	if _, err := a.Edit(func(d *config.Document) error {
		d.Listeners[0].ANAGroups = []*config.ANAGroup{{Group: 3, State: "inaccessible"}}
		return nil
	}, Options{}); err != nil {
		t.Fatal(err)
	}
	if g.revision != 3 || len(b.Document().Listeners[0].ANAGroups) > 0 {
		t.Errorf("revision %d, %s", g.revision, b.Document().YAML())
	}
}

// TestGroupIsAway: nothing changes, and the target stays as it is.
func TestGroupIsAway(t *testing.T) {
	g := new(fakeGroup)
	a := newGateway(t, g)
	dir := t.TempDir()
	if _, err := a.Apply(sharedDoc(t, dir, 1), Options{}); err != nil {
		t.Fatal(err)
	}
	g.err = errors.New("nobody answers")
	_, err := a.Apply(sharedDoc(t, dir, 1, 2), Options{})
	if code, _ := classify(err); err == nil || code != CodeFailed || !strings.Contains(err.Error(), "nobody answers") {
		t.Errorf("%v, %v", code, err)
	}
	if _, err := Follow(t.Context(), a.Manager); err == nil {
		t.Error("it follows nobody")
	}
	if doc := a.Document(); len(doc.Subsystems[0].Namespaces) != 1 {
		t.Errorf("%s", doc.YAML())
	}
}

// TestGroupIsAhead: a document that this gateway cannot follow is tried again, and what it can serve waits for the
// rest.
func TestGroupIsAhead(t *testing.T) {
	g := new(fakeGroup)
	a := newGateway(t, g)
	bad := sharedDoc(t, t.TempDir(), 1)
	bad.Subsystems[0].Namespaces[0].Fence = "" // a later version may allow this
	g.doc, g.revision = bad, 7
	if _, err := Follow(t.Context(), a.Manager); err == nil || !strings.Contains(err.Error(), "revision 7") {
		t.Error(err)
	}
	if revision, behind := Revision(a.Manager); revision != 7 || behind == nil {
		t.Errorf("revision %d, %v", revision, behind)
	}
	good := sharedDoc(t, t.TempDir(), 1)
	good.Subsystems[0].Namespaces[0].File.Path += ".missing"
	g.doc = good
	a.follow(7)
	if _, behind := Revision(a.Manager); behind != nil || len(a.Status().Waiting) != 1 {
		t.Errorf("%v, %+v", behind, a.Status())
	}
}

// TestEditBehind: an edit at a gateway that cannot follow the group's document changes that document, and nothing
// of it is lost.
func TestEditBehind(t *testing.T) {
	g := new(fakeGroup)
	a := newGateway(t, g)
	bad := sharedDoc(t, t.TempDir(), 1, 2)
	bad.Subsystems[0].Namespaces[0].Fence = "" // a later version may allow this
	g.doc, g.revision = bad, 7
	if _, err := Follow(t.Context(), a.Manager); err == nil {
		t.Fatal("it follows")
	}
	own := func(d *config.Document) error {
		d.Listeners[0].ANAGroups = []*config.ANAGroup{{Group: 3, State: "inaccessible"}}
		return nil
	}
	if _, err := a.Edit(own, Options{}); err == nil || !strings.Contains(err.Error(), "fence") {
		t.Errorf("%v", err)
	}
	if g.revision != 7 || len(g.doc.Subsystems) != 1 {
		t.Fatalf("revision %d is %s", g.revision, g.doc.YAML())
	}
	mend := func(d *config.Document) error {
		d.Subsystems[0].Namespaces[0].Fence = config.FenceLease
		return nil
	}
	if _, err := a.Edit(mend, Options{}); err != nil {
		t.Error(err)
	}
	if _, behind := Revision(a.Manager); behind != nil || g.revision != 8 || len(g.doc.Subsystems[0].Namespaces) != 2 {
		t.Errorf("%v, revision %d is %s", behind, g.revision, g.doc.YAML())
	}
}

// TestGatewaySaves: the file has what belongs to the gateway alone.
func TestGatewaySaves(t *testing.T) {
	g := new(fakeGroup)
	a := newGateway(t, g)
	if _, err := a.Apply(sharedDoc(t, t.TempDir(), 1), Options{}); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(a.dir, "own.yaml")
	for range 2 {
		if _, err := a.Save(name); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(text), "subsystems") || !strings.Contains(string(text), "etcd://127.0.0.1/g") {
		t.Errorf("%v: %s", err, text)
	}
}
