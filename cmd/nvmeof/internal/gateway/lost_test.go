package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const currentKey = revision.Prefix + "current"

// alarmedOf reports whether a gateway's status has an alarm.
func alarmedOf(s *control.GroupStatus, kind group.AlarmKind, text string) bool {
	for _, a := range s.Alarms {
		if a.Kind == string(kind) && strings.Contains(a.Text, text) {
			return true
		}
	}
	return false
}

// TestConfigurationGone: when the configuration was removed from the store, gateways raise an alarm and continue to serve. A
// new gateway does not take the group for one without a configuration, and one that runs can write it again.
func TestConfigurationGone(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a, b := start(t, store.Open(time.Second), "gw1", 221), start(t, store.Open(time.Second), "gw2", 222)
	doc := document(t)
	if _, err := a.m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		n.until(t, "each serves a half", func(s *control.GroupStatus) bool { return len(n.ids()) == 2 })
	}
	if err := followedIn(a, 1, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := a.store.Txn(t.Context(), state.Txn{Then: []state.Op{{Key: currentKey, Delete: true}}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		n.until(t, "it says so", func(s *control.GroupStatus) bool {
			return len(n.ids()) == 2 && alarmedOf(s, group.AlarmStore, currentKey+" is missing, but gateway gw1 has applied revision 1")
		})
	}
	c := still(t, store.Open(time.Second), "gw3")
	if n, err := control.Follow(t.Context(), c); err == nil || !strings.Contains(err.Error(), currentKey) {
		t.Errorf("a new gateway follows revision %d, %v", n, err)
	}
	if _, err := c.Edit(func(d *config.Document) error { d.Subsystems = doc.Clone().Subsystems[:1]; return nil }, control.Options{Force: true}); err == nil || !strings.Contains(err.Error(), currentKey) {
		t.Errorf("it changes what it does not know: %v", err)
	}
	if _, err := b.m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*control.Manager{a.m, b.m, c} {
		if n, err := control.Follow(t.Context(), m); n != 2 || err != nil {
			t.Errorf("they follow revision %d, %v", n, err)
		}
	}
	for _, n := range []*node{a, b} {
		n.until(t, "each serves a half as before", func(s *control.GroupStatus) bool { return len(n.ids()) == 2 })
	}
}

// TestConfigurationWentBack: a gateway does not follow an earlier configuration than the one that it has, as from a store that
// was restored from a copy, even if it could not follow the later one.
func TestConfigurationWentBack(t *testing.T) {
	t.Parallel()
	for _, behind := range []bool{false, true} {
		store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Hour)
		m := still(t, store, "gw1")
		doc := document(t)
		if _, err := m.Apply(doc, control.Options{}); err != nil {
			t.Fatal(err)
		}
		copied, err := store.Get(t.Context(), revision.Prefix)
		if err != nil {
			t.Fatal(err)
		}
		var restored []state.Op
		for _, e := range copied.Entries {
			restored = append(restored, state.Op{Key: e.Key, Value: e.Value})
		}
		edit := func(d *config.Document) error { d.Subsystems[0].Hosts = nil; return nil }
		if _, err := m.Edit(edit, control.Options{Force: true}); err != nil {
			t.Fatal(err)
		}
		if behind {
			var c revision.Cache
			if _, err := c.Write(t.Context(), store, 2, []byte("version: 1\nsubsystems: [{nqn: b, listeners: [77]}]\n")); err != nil {
				t.Fatal(err)
			}
			if _, err := control.Follow(t.Context(), m); err == nil {
				t.Fatal("a listener that is not there is followed")
			}
		}
		for _, ops := range [][]state.Op{restored, {{Key: currentKey, Delete: true}}} {
			if _, err := store.Txn(t.Context(), state.Txn{Then: ops}); err != nil {
				t.Fatal(err)
			}
			if n, err := control.Follow(t.Context(), m); err == nil || !strings.Contains(err.Error(), "but this gateway has revision") {
				t.Errorf("behind %t: it follows revision %d, %v", behind, n, err)
			}
			if d := m.Document(); len(d.Subsystems) != 1 || d.Subsystems[0].NQN != "a" || len(d.Subsystems[0].Hosts) != 0 {
				t.Errorf("behind %t: it is %s", behind, d.YAML())
			}
		}
	}
}
