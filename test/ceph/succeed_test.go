package ceph

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

// TestSucceed: images of a fenced owner are opened quickly. Their locks are broken without further fences, each of
// which would need a map of its own.
func TestSucceed(t *testing.T) {
	c := cluster(t)
	former, next := connect(t, c), connect(t, c)
	const images = 8
	var stores []*rbd.Store
	var names []string
	for range images {
		s, name := open(t, c, rbd.Config{Client: former, Size: 1 << 20})
		stores, names = append(stores, s), append(names, name)
	}
	addresses := former.Addresses()
	began := time.Now()
	if err := next.Fence(t.Context(), addresses, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := next.AwaitFence(t.Context(), "rbd"); err != nil {
		t.Fatal(err)
	}
	fenced := time.Since(began)
	before := osdEpoch(t, c)
	began = time.Now()
	for _, name := range names {
		s, err := rbd.Open(name, rbd.Config{Client: next})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	maps := osdEpoch(t, c) - before
	t.Logf("fenced in %v, %d images opened in %v, with %d maps of the cluster", fenced, images, time.Since(began), maps)
	for _, s := range stores {
		_ = s.Close() // fails: its client was fenced
	}
	unfence(t, former, addresses)
	if maps >= images/2 {
		t.Errorf("%d maps of the cluster for %d images", maps, images)
	}
}
