package gateway

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestErase: whichever gateway gets the request, the owner of the ANA group erases a namespace, and the next owner does so if
// that one has not.
func TestErase(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	a, b := start(t, store.Open(time.Second), "gw1", 41), start(t, store.Open(time.Second), "gw2", 42)
	doc := document(t)
	files := map[int]string{}
	for i, n := range doc.Subsystems[0].Namespaces {
		n.File.Size, n.ANAGroup = 1<<20, 33+i
		files[n.ANAGroup] = string(n.File.Path)
	}
	if _, err := a.m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		n.until(t, "each serves a half", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 2 && serves(s, "gw2") == 2 })
	}
	var its []int // ANA groups of gw2
	for _, g := range a.Status().Groups {
		if g.Owner == "gw2" {
			its = append(its, g.Group)
		}
	}
	nsid := func(group int) int { return group - 32 }
	if _, err := control.Erase(a.m, "a", nsid(its[0]), control.Options{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(files[its[0]]); err == nil {
		t.Error("the file of a namespace that was erased is there")
	}
	file := files[its[1]]
	if err := errors.Join(os.Rename(file, file+".was"), os.MkdirAll(filepath.Join(file, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Erase(a.m, "a", nsid(its[1]), control.Options{}); err == nil {
		t.Error("a folder is erased")
	}
	if e := a.m.Document().Erasing; len(e) != 1 || e[0].Why == "" {
		t.Errorf("%+v is being erased", e)
	}
	if s := a.Stats(); s.Erasing != 1 || s.ErasingFailed != 1 {
		t.Errorf("%d of %d have failed, by the statistics", s.ErasingFailed, s.Erasing)
	}
	b.stop()
	if err := os.Remove(filepath.Join(file, "x")); err != nil {
		t.Fatal(err)
	}
	a.until(t, "gw1 has erased it", func(*control.GroupStatus) bool { return len(a.m.Document().Erasing) == 0 })
	if _, err := os.Lstat(file); err == nil {
		t.Error("it is there")
	}
	a.until(t, "the ANA groups without namespaces have gone", func(s *control.GroupStatus) bool {
		return !slices.ContainsFunc(s.Groups, func(g control.ANAStatus) bool { return slices.Contains(its, g.Group) })
	})
}

// TestRemoveImage: no image is removed by a client that the group's store does not have, and a cluster is one of the
// group's as long as an image of it is being erased.
func TestRemoveImage(t *testing.T) {
	c := &clients{all: map[rbd.ClientConfig]*joined{}}
	n := &config.RBD{Image: "p/i", Size: 1 << 20, ID: "x"}
	doc := &config.Document{Erasing: []*config.Erasing{{Subsystem: "a", Namespace: &config.Namespace{NSID: 1, ANAGroup: 3, RBD: n}}}}
	if missing, _ := c.missing(doc); !slices.Equal(missing, []rbd.ClientConfig{{ID: "x"}}) {
		t.Errorf("%v is missing", missing)
	}
	if pools := poolsOf(doc, 3); len(pools[rbd.ClientConfig{ID: "x"}]) != 1 || len(poolsOf(doc, 4)) > 0 {
		t.Errorf("%v", pools)
	}
	if err := c.removeImage(n); !errors.Is(err, errNewCluster) {
		t.Error(err)
	}
	c.all[rbd.ClientConfig{ID: "x"}] = &joined{}
	if err := c.removeImage(n); !errors.Is(err, errNewCluster) {
		t.Error(err)
	}
}
