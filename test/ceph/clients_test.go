package ceph

import (
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

// TestClients: images of a target have one client, which the cluster sees at each of them. When it is
// blocklisted all fail, and each has another one, the same, once its failure is cleared.
func TestClients(t *testing.T) {
	c := cluster(t)
	var clients rbd.Clients
	var writers [3]*writer
	var stores [3]*rbd.Store
	var images [3]string
	for i := range writers {
		stores[i], images[i] = open(t, c, rbd.Config{Clients: &clients, Size: 20 << 20})
		writers[i] = newWriter(t, stores[i])
	}
	one := func() (address string) {
		t.Helper()
		for i, w := range writers {
			w.during(func() error { return nil })
			w.verify()
			switch at := watcher(t, c, images[i]); {
			case i == 0:
				address = at
			case at != address:
				t.Errorf("%s has the client %s, the first image %s", images[i], at, address)
			}
		}
		return address
	}
	first := one()
	admin := connect(t, c)
	defer admin.Close()
	if err := admin.Fence(t.Context(), []string{first}, time.Minute); err != nil {
		t.Fatal(err)
	}
	learn(t, images[0], admin, writers[0])
	for i, w := range writers {
		w.writeUntilFenced()
		if stores[i].Failed() == nil {
			t.Error("the store does not say that it has failed")
		}
	}
	for _, s := range stores {
		if err := s.Clear(); err != nil {
			t.Fatal(err)
		}
	}
	if second := one(); second == first {
		t.Errorf("the client is still %s", second)
	}
	for i, w := range writers {
		w.close(stores[i])
	}
	if err := admin.Unfence(t.Context(), []string{first}); err != nil {
		t.Error(err)
	}
}

// learn has the OSDs of an image know what the client knows of fences.
func learn(t *testing.T, image string, by *rbd.Client, w *writer) {
	t.Helper()
	s, err := rbd.Open(image, rbd.Config{Client: by, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	reading := newWriter(t, s)
	reading.blocks = w.blocks
	reading.verify()
	reading.close(s)
}

// writeUntilFenced: the OSDs of an image may learn of a fence later than those of another.
func (w *writer) writeUntilFenced() {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		err := w.write()
		if errors.Is(err, backend.ErrFenced) {
			return
		}
		if err != nil || time.Now().After(end) {
			w.t.Fatalf("a write: %v", err)
		}
	}
}
