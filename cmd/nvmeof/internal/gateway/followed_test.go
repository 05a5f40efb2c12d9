package gateway

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestFollowed: a revision is in force when each gateway that may serve something has noted that, or has been
// fenced.
func TestFollowed(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	conn := store.Open(time.Second)
	a, b := start(t, store.Open(time.Second), "gw1", 51), start(t, conn, "gw2", 52)
	if _, err := a.m.Apply(document(t), control.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		n.until(t, "each serves a half", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 2 && serves(s, "gw2") == 2 })
	}
	followed := func(most time.Duration) error { return followedIn(a, 1, most) }
	if err := followed(10 * time.Second); err != nil {
		t.Error(err)
	}
	link := func(l simulated.Link) {
		store.Do(func(s *simulated.Store, _ time.Time) { s.SetLink(conn.Client, l) })
	}
	link(simulated.Cut())
	withdraw := func() {
		t.Helper()
		if _, err := a.m.Edit(func(d *config.Document) error { d.Subsystems[0].Hosts = nil; return nil }, control.Options{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	withdraw()
	if err := followed(200 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "gw2") {
		t.Errorf("gw2 does not follow: %v", err)
	}
	if err := followed(30 * time.Second); err != nil { // the others have taken over its groups
		t.Error(err)
	}
	a.until(t, "gw1 has all", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 4 })
	link(simulated.Link{})
	b.until(t, "gw2 is back", func(s *control.GroupStatus) bool { return serves(s, "gw2") > 0 })
	if err := followed(10 * time.Second); err != nil {
		t.Error(err)
	}
	store.Do(func(s *simulated.Store, _ time.Time) { s.SetDown(true) })
	if err := followed(200 * time.Millisecond); err == nil {
		t.Error("nobody knows who follows")
	}
	store.Do(func(s *simulated.Store, _ time.Time) { s.SetDown(false) })
}

// TestFollowedBut: a revision that is not in force yet in some of a gateway's namespaces is in force in others.
func TestFollowedBut(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a, b := start(t, store.Open(time.Second), "gw1", 61), start(t, store.Open(time.Second), "gw2", 62)
	if _, err := a.m.Apply(document(t), control.Options{}); err != nil {
		t.Fatal(err)
	}
	b.until(t, "gw2 serves a half", func(s *control.GroupStatus) bool { return serves(s, "gw2") == 2 })
	for but, inForce := range map[string][]bool{"a/1": {false, true}, "a/0": {false, false}, "b/1": {true, true}} {
		var got []bool
		for attempt := 0; attempt < 5 && !slices.Equal(got, inForce); attempt++ { // gw2 may say otherwise meanwhile
			n, _ := control.Revision(a.m)
			if err := revision.Note(t.Context(), store.Open(time.Second), "gw2", n, []string{but}); err != nil {
				t.Fatal(err)
			}
			got = nil
			for i := range inForce {
				got = append(got, followedIn(a, i+1, 200*time.Millisecond) == nil)
			}
		}
		if !slices.Equal(got, inForce) {
			t.Errorf("in force, where gw2 has not %s: %v instead of %v", but, got, inForce)
		}
	}
}

// followedIn asks a gateway whether the present revision is in force in a namespace, for some time.
func followedIn(n *node, nsid int, most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	r, _ := control.Revision(n.m)
	return (*shared)(n.Gateway).Followed(ctx, r, control.NamespaceRef{Subsystem: "a", NSID: nsid})
}
