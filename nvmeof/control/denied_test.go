package control

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// newGroupRig returns a gateway with an API.
func newGroupRig(t *testing.T, g *fakeGroup) *apiRig {
	r := newAPIRig(t, func(c *Config) {
		c.Group = g
		c.Settings.Group.Store = "etcd://127.0.0.1/g"
	})
	body := fmt.Sprintf(`{"nqn": "a", "namespaces": [{"nsid": 1, "file": {"path": %q, "size": "1MiB"}, "fence": "lease"}],
		"hosts": [{"nqn": "h", "access": "none", "namespaces": [{"nsid": 1, "access": "write"}]}]}`, filepath.Join(r.dir, "disk"))
	r.do("POST", "/v1/subsystems", body, nil)
	return r
}

// TestWithdrawInGroup: a withdrawal is complete when all gateways enforce it.
func TestWithdrawInGroup(t *testing.T) {
	g := &fakeGroup{late: errors.New("gateway gw2 has not followed")}
	r := newGroupRig(t, g)
	const path = "/v1/subsystems/a/namespaces/1/hosts"
	r.refused(CodeFailed, "DELETE", path+"/h", "")
	r.refused(CodeFailed, "DELETE", path+"/h", "") // although the host no longer has it
	r.refused(CodeFailed, "DELETE", path, "")
	r.do("DELETE", path, "", nil, "dry-run")
	g.late = nil
	for _, which := range []string{"/h", ""} {
		g.awaited = 0
		r.do("PUT", path+"/h", "{}", nil)
		r.do("DELETE", path+which, "", nil)
		if s := r.Document().Subsystems[0]; sees(s, "h", 1) || g.awaited != g.revision {
			t.Errorf("the host may use it: %v; revision %d was awaited, of %d", sees(s, "h", 1), g.awaited, g.revision)
		}
	}
	r.refused(CodeNotFound, "DELETE", "/v1/subsystems/b/namespaces/1/hosts", "")
	r.refused(CodeInvalid, "DELETE", "/v1/subsystems/a/namespaces/x/hosts", "")
	r.behind = errors.New("no such file")
	if err := followed(t.Context(), r.Manager, NamespaceRef{"a", 1}); !errors.As(err, new(*GroupError)) {
		t.Errorf("by a gateway that does not have the document itself: %v", err)
	}
}

// TestWithdrawOutdated: a gateway can withdraw a grant of another gateway that it does not know yet, and it does
// not report a namespace as missing that another one has just added.
func TestWithdrawOutdated(t *testing.T) {
	g := new(fakeGroup)
	r := newGroupRig(t, g)
	r.do("DELETE", "/v1/subsystems/a/namespaces/1/hosts/h", "", nil)
	elsewhere := func(change func(*config.Subsystem)) {
		doc := g.doc.Clone()
		change(doc.Subsystems[0])
		g.doc, g.revision = doc, g.revision+1
	}
	elsewhere(func(s *config.Subsystem) {
		s.Hosts = []*config.Host{{NQN: "h", Access: "none", Namespaces: []*config.Right{{NSID: 1, Access: "write"}}}}
	})
	r.do("DELETE", "/v1/subsystems/a/namespaces/1/hosts/h", "", nil)
	if sees(g.doc.Subsystems[0], "h", 1) || g.awaited != g.revision {
		t.Errorf("revision %d, of %d, was awaited, and the group has %s", g.awaited, g.revision, g.doc.YAML())
	}
	elsewhere(func(s *config.Subsystem) {
		n := *s.Namespaces[0]
		n.NSID, n.File = 2, &config.File{Path: config.Path(filepath.Join(r.dir, "second")), Size: 1 << 20}
		s.Namespaces = append(s.Namespaces, &n)
	})
	r.do("DELETE", "/v1/subsystems/a/namespaces/2", "", nil, "force")
	if n := len(g.doc.Subsystems[0].Namespaces); n != 1 {
		t.Errorf("%d namespaces", n)
	}
	g.err = errors.New("this gateway cannot read it: upgrade it")
	r.do("PATCH", "/v1/subsystems/a/namespaces/1", "{}", nil) // an empty change
	r.refused(CodeFailed, "DELETE", "/v1/subsystems/a/namespaces/1/hosts/h", "")
}

// TestEnforce: a gateway that follows the document ends disallowed commands, once.
func TestEnforce(t *testing.T) {
	g := new(fakeGroup)
	a, b := newGateway(t, g), newGateway(t, g)
	doc := sharedDoc(t, t.TempDir(), 1)
	if _, err := a.Apply(doc, Options{}); err != nil {
		t.Fatal(err)
	}
	b.follow(1)
	for _, change := range []func(*config.Subsystem){
		func(s *config.Subsystem) { s.AllowAnyHost = true },
		func(s *config.Subsystem) { s.AllowAnyHost = false },
		func(s *config.Subsystem) { s.Hosts = nil },
	} {
		if e, err := Enforce(t.Context(), b.Manager); err != nil || e.Revision != g.revision || len(e.But) > 0 || e.Why != nil || len(b.denied) > 0 {
			t.Errorf("%+v, of %d, %v, %v", e, g.revision, err, b.denied)
		}
		if _, err := a.Edit(func(d *config.Document) error { change(d.Subsystems[0]); return nil }, Options{Force: true}); err != nil {
			t.Fatal(err)
		}
		b.follow(g.revision)
		if _, noted := b.denied["a"]; !noted {
			t.Error("nothing is to be ended")
		}
	}
	b.behind = errors.New("no such file")
	if _, err := Enforce(t.Context(), b.Manager); err == nil {
		t.Error("a gateway that has not followed has enforced it")
	}
	b.behind, b.denied["gone"] = nil, nil
	if e, err := Enforce(t.Context(), b.Manager); err != nil || e.Revision != g.revision || len(e.But) > 0 {
		t.Error(e, err)
	}
}

// TestEnforceBesideHung: if a store does not end a command, the document is not enforced in that namespace, but in
// all others.
func TestEnforceBesideHung(t *testing.T) {
	t.Parallel()
	r, h, _ := newHolding(t)
	s, err := r.subsystem("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetAccess(r.Controllers()[0].Host, 1, target.AccessNone); err != nil {
		t.Fatal(err)
	}
	r.denied["a"] = nil
	for range 2 { // the second time, it is known
		began := time.Now()
		e, err := Enforce(t.Context(), r.Manager)
		if err != nil || !slices.Equal(e.But, []NamespaceRef{{"a", 1}}) || e.Why == nil {
			t.Errorf("%+v, %v", e, err)
		}
		t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), e.Why)
	}
	h.set(false)
	r.await("all is in force", func() bool {
		e, err := Enforce(t.Context(), r.Manager)
		return err == nil && e.Why == nil && len(e.But) == 0
	})
	if len(r.denied) > 0 {
		t.Errorf("%v", r.denied)
	}
}
