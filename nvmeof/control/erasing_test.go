package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const erasePath = "/v1/subsystems/a/namespaces/1/erase"

// erasedBeside calls erase while the gateway erases the listed namespaces, until erase has returned.
func erasedBeside(m *Manager, erase func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	go func() { // until erase has returned
		defer close(over)
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
				EraseListed(m.context, m)
			}
		}
	}()
	erase()
	close(ended)
	<-over
}

// TestEraseInGroup: hosts lose the namespace with the revision that says it is being erased. The file is removed
// when no gateway has it open, and then the entry of the document.
func TestEraseInGroup(t *testing.T) {
	g := new(fakeGroup)
	r := newGroupRig(t, g)
	r.erasedTime = 10 * time.Millisecond
	file := filepath.Join(r.dir, "disk")
	there := func() bool { _, err := os.Lstat(file); return err == nil }
	r.do("POST", erasePath, "", nil, "dry-run")
	before := g.revision
	g.late = errors.New("gateway gw2 has not followed")
	r.refused(CodeFailed, "POST", erasePath, "")
	if e := erasingOf(g.doc, "a", 1); e == nil || g.revision != before+1 || len(g.doc.Subsystems[0].Namespaces)+len(g.doc.Subsystems[0].Hosts[0].Namespaces) > 0 {
		t.Fatalf("revision %d, before %d: %s", g.revision, before, g.doc.YAML())
	}
	EraseListed(t.Context(), r.Manager)
	if !there() || erasingOf(g.doc, "a", 1) == nil {
		t.Error("it is erased though another gateway may have it open")
	}
	g.late = nil
	r.refused(CodeFailed, "POST", erasePath, "") // no gateway erases it
	erasedBeside(r.Manager, func() {
		r.erasedTime = time.Minute
		r.do("POST", erasePath, "", nil) // a repeated request waits
	})
	if there() || len(g.doc.Erasing) > 0 || g.awaited != g.revision-1 {
		t.Errorf("the file is there: %v; %d awaited, %s", there(), g.awaited, g.doc.YAML())
	}
	r.refused(CodeNotFound, "POST", erasePath, "")
}

// interrupted returns two gateways. The first ended before it had erased namespace 1 of a document with two in a
// folder.
func interrupted(t *testing.T) (g *fakeGroup, a, b *rig, doc *config.Document, dir string) {
	t.Helper()
	g, dir = new(fakeGroup), t.TempDir()
	a, b = newGateway(t, g), newGateway(t, g)
	a.erasedTime = 0
	doc = sharedDoc(t, dir, 1, 2)
	doc.Subsystems[0].Namespaces[0].File.Size = 1 << 20
	if _, err := a.Apply(doc, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Erase(a.Manager, "a", 1, Options{}); !errors.As(err, new(*pendingError)) || !strings.Contains(err.Error(), "nvmeof ls") {
		t.Fatal(err)
	}
	b.follow(g.revision)
	return g, a, b, doc, dir
}

// addFile adds a namespace with an existing file of a folder.
func (r *rig) addFile(nsid int, dir, name string) error {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		r.t.Fatal(err)
	}
	_, err := r.Edit(func(d *config.Document) error {
		return namespaces(d.Subsystems[0]).add(&config.Namespace{NSID: nsid, File: &config.File{Path: config.Path(path)}, Fence: config.FenceLease})
	}, Options{})
	return err
}

// TestErasingHolds: until a namespace is erased, no other one can have its NSID or its store, and its entry is kept
// whatever document is applied.
func TestErasingHolds(t *testing.T) {
	g, _, b, doc, dir := interrupted(t)
	for nsid, name := range map[int]string{1: "3", 3: "1"} {
		err := b.addFile(nsid, dir, name)
		if code, _ := classify(err); code != CodeExists || !strings.Contains(err.Error(), "being erased") {
			t.Errorf("namespace %d on %s: %v", nsid, name, err)
		}
	}
	if _, err := b.Apply(doc, Options{}); !errors.As(err, new(*ErasingError)) {
		t.Errorf("a document that has it: %v", err)
	}
	if _, err := b.Apply(sharedDoc(t, dir, 2), Options{}); err != nil || len(g.doc.Erasing) != 1 {
		t.Errorf("a document that does not: %v, %s", err, g.doc.YAML())
	}
	if _, err := b.Edit(func(d *config.Document) error { d.Subsystems = nil; return nil }, Options{Force: true}); err != nil || len(g.doc.Erasing) != 1 {
		t.Errorf("without its subsystem: %v, %s", err, g.doc.YAML())
	}
	EraseListed(t.Context(), b.Manager)
	if _, err := os.Lstat(filepath.Join(dir, "1")); err == nil || len(g.doc.Erasing) > 0 {
		t.Errorf("%v, %s", err, g.doc.YAML())
	}
	if _, err := b.Apply(doc, Options{}); err != nil {
		t.Error(err)
	}
}

// TestEraseFails: if a store cannot be removed, the document keeps the entry with the reason, and removal is
// retried.
func TestEraseFails(t *testing.T) {
	g, a, b, _, dir := interrupted(t)
	first := filepath.Join(dir, "1")
	if err := errors.Join(os.Remove(first), os.MkdirAll(filepath.Join(first, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	EraseListed(t.Context(), b.Manager)
	at := g.revision
	EraseListed(t.Context(), b.Manager)
	if e := erasingOf(g.doc, "a", 1); e == nil || !strings.Contains(e.Why, "not empty") || g.revision != at {
		t.Fatalf("%+v, revision %d: the same reason is written once, as revision %d", e, g.revision, at)
	}
	a.follow(at)
	if _, err := Erase(a.Manager, "a", 1, Options{}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("whoever asks again is told %v", err)
	}
	if err := b.addFile(1, dir, "3"); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("whoever wants its number is told %v", err)
	}
	if err := os.Rename(first, first+".kept"); err != nil { // to keep it after all
		t.Fatal(err)
	}
	EraseListed(t.Context(), b.Manager)
	if len(g.doc.Erasing) > 0 {
		t.Errorf("%s", g.doc.YAML())
	}
	if err := b.addFile(1, dir, "3"); err != nil {
		t.Error(err)
	}
}

// TestEraseImage: an image is removed by the gateway's function. If the group's store does not answer, the error
// says so.
func TestEraseImage(t *testing.T) {
	g := new(fakeGroup)
	r := newGateway(t, g)
	var removed []string
	r.cfg.RemoveImage = func(n *config.RBD) error { removed = append(removed, n.Image); return nil }
	doc := sharedDoc(t, t.TempDir(), 1)
	doc.Erasing = []*config.Erasing{{Subsystem: "a", Namespace: &config.Namespace{NSID: 7, ANAGroup: 3, RBD: &config.RBD{Image: "p/i", Size: 1 << 20}}}}
	g.doc, g.revision = doc, 1
	r.follow(1)
	if ids, fences := r.Document().Groups(); ids[0] != 3 || fences[3] != config.FenceStorage {
		t.Errorf("groups %v, %v: nobody would serve that of what is being erased", ids, fences)
	}
	if _, err := r.Edit(func(d *config.Document) error { d.Subsystems[0].Namespaces[0].ANAGroup = 3; return nil }, Options{}); err == nil {
		t.Error("a group has two fences")
	}
	g.before = func() { g.err = errors.New("nobody answers") }
	EraseListed(t.Context(), r.Manager)
	g.err = nil
	if len(g.doc.Erasing) != 1 {
		t.Error("it is not noted, and forgotten")
	}
	EraseListed(t.Context(), r.Manager)
	if fmt.Sprint(removed) != "[p/i p/i]" || len(g.doc.Erasing) > 0 {
		t.Errorf("removed %v; %s", removed, g.doc.YAML())
	}
}

// A movingGroup calls a function while a caller waits for all gateways to follow.
type movingGroup struct {
	*fakeGroup
	meanwhile func()
}

func (g *movingGroup) Followed(ctx context.Context, revision int64, at NamespaceRef) error {
	g.meanwhile()
	return g.fakeGroup.Followed(ctx, revision, at)
}

// TestEraseOvertaken: a gateway does not erase a namespace that another one has erased while it waited, since there
// may be a new file with its name.
func TestEraseOvertaken(t *testing.T) {
	g, _, b, _, dir := interrupted(t)
	b.cfg.Group = &movingGroup{g, func() {
		g.mu.Lock()
		g.doc.Erasing = nil
		g.revision++
		at := g.revision
		g.mu.Unlock()
		b.follow(at)
	}}
	EraseListed(t.Context(), b.Manager)
	if _, err := os.Lstat(filepath.Join(dir, "1")); err != nil {
		t.Error(err)
	}
}

// TestGivenBackWhileErasing: a gateway does not give an ANA group back while it erases a store of it. Otherwise the
// next gateway would erase it too, and this one would remove a new file with that name.
func TestGivenBackWhileErasing(t *testing.T) {
	g, began, goOn := new(fakeGroup), make(chan struct{}), make(chan struct{})
	r := newGatewayRig(t, t.TempDir(), func(c *Config) {
		c.Group = g
		c.Settings.Group.Store = "etcd://127.0.0.1/g"
		c.RemoveImage = func(*config.RBD) error {
			close(began)
			<-goOn
			return nil
		}
	})
	r.set(gatewayDoc)
	g.doc = sharedDoc(t, t.TempDir(), 1)
	g.doc.Erasing = []*config.Erasing{{Subsystem: "a", Namespace: &config.Namespace{NSID: 7, ANAGroup: 3, RBD: &config.RBD{Image: "p/i", Size: 1 << 20}}}}
	g.revision = 1
	r.follow(1)
	r.must(ServeGroup(t.Context(), r.Manager, 3, 1))
	for hangs := range 2 {
		r.changeTimeout = []time.Duration{time.Minute, time.Millisecond}[hangs]
		erased := make(chan struct{})
		go func() { // ends with the removal, or before it if that hangs
			defer close(erased)
			EraseListed(t.Context(), r.Manager)
		}()
		<-began
		if hangs == 1 {
			<-erased
		}
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := DrainGroup(soon, r.Manager, 3); err == nil || !strings.Contains(err.Error(), "p/i is still being erased") {
			t.Errorf("hangs %d: given back with %v", hangs, err)
		}
		cancel()
		close(goOn)
		r.must(DrainGroup(t.Context(), r.Manager, 3))
		<-erased
		if hangs == 0 && len(g.doc.Erasing) > 0 {
			t.Errorf("it is given back, and not noted:\n%s", g.doc.YAML())
		}
		began, goOn = make(chan struct{}), make(chan struct{})
		g.doc.Erasing = []*config.Erasing{{Subsystem: "a", Namespace: &config.Namespace{NSID: 8, ANAGroup: 3, RBD: &config.RBD{Image: "p/i", Size: 1 << 20}}}}
		g.revision++
		r.follow(g.revision)
		r.must(ServeGroup(t.Context(), r.Manager, 3, uint64(hangs)+2))
	}
	r.changeTimeout = time.Minute
}

// TestEraseBehind: a gateway that does not have the latest document erases nothing: a new file may have the name of
// one that is no longer listed.
func TestEraseBehind(t *testing.T) {
	g, _, b, _, dir := interrupted(t)
	g.doc.Erasing = nil
	g.revision++
	EraseListed(t.Context(), b.Manager)
	if _, err := os.Lstat(filepath.Join(dir, "1")); err != nil {
		t.Error(err)
	}
}
