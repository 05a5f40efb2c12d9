package gateway

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// size returns the size of the only namespace that a gateway reports to hosts, in bytes.
func (n *node) size() int64 {
	for _, s := range n.target.Measure().Subsystems {
		for _, x := range s.Namespaces {
			return x.Size
		}
	}
	return 0
}

// TestSizeAtOthers: a store that was made larger, by any means, has its new size at each gateway, not only at the one that
// serves it: hosts with several paths use the least size.
func TestSizeAtOthers(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a, b := listen(t, store.Open(time.Second), "gw1", 171), listen(t, store.Open(time.Second), "gw2", 172)
	for _, n := range []*node{a, b} {
		n.loads.every = 50 * time.Millisecond
		n.begin()
	}
	path := filepath.Join(t.TempDir(), "disk")
	want := func(what string, size int64) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); a.size() != size || b.size() != size; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: gw1 has %d bytes, gw2 %d, want %d", what, a.size(), b.size(), size)
			}
		}
	}
	if _, err := a.m.Apply(inFile(t, path, ""), control.Options{}); err != nil {
		t.Fatal(err)
	}
	a.moveTo(t, "gw1")
	want("at first", 1<<20)
	if err := os.Truncate(path, 2<<20); err != nil {
		t.Fatal(err)
	}
	want("made larger outside", 2<<20)
	_, err := b.m.Edit(func(d *config.Document) error {
		d.Subsystems[0].Namespaces[0].File.Size = 3 << 20
		return nil
	}, control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want("made larger by the configuration", 3<<20)
	a.moveTo(t, "gw2")
	if err := os.Truncate(path, 4<<20); err != nil {
		t.Fatal(err)
	}
	want("made larger at the other", 4<<20)
}

// TestDiffering: a group whose size differs is probed once, and again at increasing intervals.
func TestDiffering(t *testing.T) {
	var s sizes
	at := time.Unix(1000, 0)
	step := func(heard, known int64, after time.Duration, want bool) {
		t.Helper()
		at = at.Add(after)
		s.hear(map[group.ID]int64{3: heard})
		if got := s.differing(at, map[group.ID]int64{3: known}); len(got) == 1 != want {
			t.Errorf("heard %d, known %d: differing are %v", heard, known, got)
		}
	}
	step(10, 10, 0, false)
	step(20, 10, 0, true)
	step(20, 10, time.Second, false)
	step(20, 15, time.Second, true)
	step(30, 15, time.Second, true)
	step(30, 15, sizesAgain, true)
	step(30, 15, sizesAgain, false)
	step(30, 15, sizesAgain, true)
	step(30, 30, time.Second, false)
	step(20, 30, time.Second, true)
	s.hear(nil)
	if got := s.differing(at.Add(time.Hour), map[group.ID]int64{3: 1}); len(got) > 0 || len(s.tried) > 0 {
		t.Errorf("of what nobody serves: %v, %v", got, s.tried)
	}
}
