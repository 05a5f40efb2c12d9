package ceph

import (
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

// TestClients: images of a target share one client, which the cluster sees at each of them. When it is blocklisted all
// images fail. Once their failures are cleared they share a new client.
func TestClients(t *testing.T) {
	c := cluster(t)
	clients := rbd.Clients{Number: 1}
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

// TestClientsSeveral: images share two clients. When the cluster blocklists one, the images of the other go on, and
// keep it. The images of the blocklisted one get a new client.
func TestClientsSeveral(t *testing.T) {
	c := cluster(t)
	clients := rbd.Clients{Number: 2}
	var writers [4]*writer
	var stores [4]*rbd.Store
	var images [4]string
	for i := range writers {
		stores[i], images[i] = open(t, c, rbd.Config{Clients: &clients, Size: 20 << 20})
		writers[i] = newWriter(t, stores[i])
	}
	at := func() (all [4]string) {
		t.Helper()
		for i, w := range writers {
			w.during(func() error { return nil })
			w.verify()
			all[i] = watcher(t, c, images[i])
		}
		return all
	}
	before := at()
	if before[0] == before[1] || before[2] != before[0] || before[3] != before[1] {
		t.Fatalf("four images have the clients %v", before)
	}
	admin := connect(t, c)
	defer admin.Close()
	if err := admin.Fence(t.Context(), before[:1], time.Minute); err != nil {
		t.Fatal(err)
	}
	learn(t, images[0], admin, writers[0])
	for _, i := range []int{0, 2} {
		writers[i].writeUntilFenced()
	}
	for _, i := range []int{1, 3} {
		writers[i].during(func() error { return nil })
		if err := stores[i].Failed(); err != nil {
			t.Errorf("an image of the client that is not refused: %v", err)
		}
	}
	for _, i := range []int{0, 2} {
		if err := stores[i].Clear(); err != nil {
			t.Fatal(err)
		}
	}
	after := at()
	if after[0] == before[0] || after[0] == before[1] || after[2] != after[0] || after[1] != before[1] || after[3] != before[1] {
		t.Errorf("the clients were %v and are %v", before, after)
	}
	for i, w := range writers {
		w.close(stores[i])
	}
	if err := admin.Unfence(t.Context(), before[:1]); err != nil {
		t.Error(err)
	}
}

// learn makes the OSDs of an image learn of the fences that the client knows.
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

// writeUntilFenced writes until a write is refused: the OSDs of one image may learn of a fence later than those of
// another.
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

// reads are the reads of one queue that are outstanding, by tag.
type reads struct {
	t      *testing.T
	q      backend.Queue
	buf    []byte // of all reads; its contents are not used
	silent map[uint64]bool
}

func (r *reads) begin(tag int, offset int64) {
	r.t.Helper()
	r.silent[uint64(tag)] = true
	if r.q.Submit([]backend.Request{{Tag: uint64(tag), Op: backend.OpRead, Offset: offset, Length: int64(len(r.buf)), Buf: r.buf}}) != 1 {
		r.t.Fatal("the queue is full")
	}
}

// await takes results for a time, or until all have come.
func (r *reads) await(d time.Duration) {
	var got [64]backend.Result
	for end := time.Now().Add(d); len(r.silent) > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, a := range got[:r.q.Poll(got[:])] {
			if delete(r.silent, a.Tag); a.Err != nil {
				r.t.Errorf("read %d: %v", a.Tag, a.Err)
			}
		}
	}
}

// createAlone creates an image whose objects are on one OSD each.
func createAlone(t *testing.T, c *Cluster, image string) {
	t.Helper()
	for _, args := range [][]string{
		{"ceph", "osd", "pool", "create", "alone", "8"},
		{"ceph", "osd", "pool", "set", "alone", "size", "1", "--yes-i-really-mean-it"},
		{"rbd", "pool", "init", "alone"},
		{"rbd", "create", image, "--size", "64M"},
	} {
		if _, err := c.Run(args[0], args[1:]...); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClientsBesideHung: an image's placement groups are gone, and it has more outstanding requests than a client
// allows by default. The image then delays requests of another image of the same client only until the cluster has
// noticed.
func TestClientsBesideHung(t *testing.T) {
	c := own(t)
	createAlone(t, c, "alone/disk")
	clients := rbd.Clients{Number: 1}
	hung, err := rbd.Open("alone/disk", rbd.Config{Clients: &clients, Conf: c.Conf, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := open(t, c, rbd.Config{Clients: &clients, Size: 20 << 20})
	w := newWriter(t, other)
	w.during(func() error { return nil })
	q, err := hung.NewQueue(2048, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &reads{t, q, backendtest.Buffer(4096, 4096), map[uint64]bool{}}
	goOn := func() error { return c.Signal("osd.1", syscall.SIGCONT) }
	t.Cleanup(func() { _ = goOn() }) // in case the test has failed
	if err := c.Signal("osd.1", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const objects, object = 16, 4 << 20
	for i := range objects {
		r.begin(i, int64(i)*object)
	}
	r.await(3 * time.Second)
	if len(r.silent) == 0 {
		t.Skip("no object of the image is at the OSD that hangs")
	}
	at := int64(slices.Collect(maps.Keys(r.silent))[0]) * object
	for i := objects; i < 1600; i++ {
		r.begin(i, at)
	}
	began := time.Now()
	w.during(func() error { return nil })
	w.verify()
	if took := time.Since(began); took > 30*time.Second || len(r.silent) < 1500 {
		t.Errorf("the other image has taken %v, and %d reads of the first are outstanding", took, len(r.silent))
	}
	if err := goOn(); err != nil {
		t.Fatal(err)
	}
	if r.await(time.Minute); len(r.silent) > 0 {
		t.Errorf("%d reads have no answer", len(r.silent))
	}
	w.close(other)
	if err := errors.Join(q.Close(), hung.Close()); err != nil {
		t.Error(err)
	}
}
