package gateway

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// trouble is what an administrator has to attend to in the namespace; empty: nothing, or it is not open.
func (n *node) trouble() (why string) {
	n.target.Revalidate()
	for _, s := range n.target.Subsystems() {
		for _, n := range s.Namespaces() {
			why += n.Trouble()
		}
	}
	return why
}

// TestFaults: a store that has failed at one gateway has at the next, until that is cleared at any.
func TestFaults(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a, b := start(t, store.Open(time.Second), "gw1", 211), start(t, store.Open(time.Second), "gw2", 212)
	path := config.Path(filepath.Join(t.TempDir(), "disk"))
	if _, err := a.m.Apply(inFile(t, string(path), ""), control.Options{}); err != nil {
		t.Fatal(err)
	}
	a.until(t, "it is served", func(s *control.GroupStatus) bool { return len(a.ids())+len(b.ids()) == 1 && len(s.Groups) == 1 })
	from, to := a, b
	if len(a.ids()) == 0 {
		from, to = b, a
	}
	for range 2 {
		if err := a.faults.Add(t.Context(), path, "input/output error"); err != nil {
			t.Fatal(err)
		}
	}
	from.until(t, "the owner's store has failed", func(*control.GroupStatus) bool { return from.trouble() != "" })
	from.moveTo(t, to.name)
	to.until(t, "so has that of the next", func(*control.GroupStatus) bool { return to.trouble() != "" })
	if err := from.m.ClearFault("a", 1); err != nil {
		t.Error(err)
	}
	to.until(t, "it is cleared", func(*control.GroupStatus) bool { return len(to.ids()) == 1 && to.trouble() == "" })
	if all, err := a.store.Get(t.Context(), faultPrefix); err != nil || len(all.Entries) > 0 {
		t.Errorf("noted are %v, %v", all.Entries, err)
	}
	if had, err := b.faults.Clear(t.Context(), path); had || err != nil {
		t.Errorf("what is not noted is cleared: %v, %v", had, err)
	}
	// What the group's document does not have any more is forgotten.
	if err := a.faults.Add(t.Context(), path, "input/output error"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.m.Apply(inFile(t, string(path)+".other", ""), control.Options{Force: true}); err != nil {
		t.Fatal(err)
	}
	if all, err := a.store.Get(t.Context(), faultPrefix); err != nil || len(all.Entries) > 0 {
		t.Errorf("noted are %v, %v", all.Entries, err)
	}
}

// TestDamagedFault: a note that is damaged keeps the file that it is of from being opened, which says how that ends, and no
// other one.
func TestDamagedFault(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a := start(t, store.Open(time.Second), "gw1", 213)
	doc := document(t)
	damaged := doc.Subsystems[0].Namespaces[2].Path()
	ops := []state.Op{{Key: faultKey(damaged), Value: []byte("{}")}, {Key: faultKey("/of/nobody"), Value: []byte("damaged")}}
	if _, err := a.store.Txn(t.Context(), state.Txn{Then: ops}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	trouble := func() string {
		for _, w := range a.m.Status().Waiting {
			if w.NSID == 3 {
				return w.Why
			}
		}
		return ""
	}
	a.until(t, "all others are served, and it says why", func(*control.GroupStatus) bool {
		return len(a.ids()) == 3 && strings.Contains(trouble(), faultKey(damaged)) && strings.Contains(trouble(), "clear-fault")
	})
	if err := a.m.ClearFault("a", 3); err != nil {
		t.Error(err)
	}
	a.until(t, "it is served", func(*control.GroupStatus) bool { return len(a.ids()) == 4 })
}
