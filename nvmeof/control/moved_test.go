package control

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A rooted device cannot be moved.
type rooted struct{ *softroce.Device }

func (rooted) Move() (*rdmatransport.Moved, error) { return nil, errors.New("too many open files") }

// memoryOf returns the memory of the second namespace.
func (r *rig) memoryOf() []byte {
	return r.stores.held[keyOf("a", &config.Namespace{NSID: 2})].store.(*memory.Store).Memory()
}

// TestExportHalfWay: if a device cannot be moved after all, the target has ended, and another one has the data in
// memory, twice if the first fails.
func TestExportHalfWay(t *testing.T) {
	r := newRig(t, func(c *Config) {
		open := c.Device
		c.Device = func(a netip.Addr, own config.Transport) (rdmatransport.Device, error) {
			d, err := open(a, own)
			if err != nil {
				return nil, err
			}
			return rooted{d.(*softroce.Device)}, nil
		}
	})
	r.apply(r.doc(first))
	copy(r.memoryOf(), "written")
	x, err := Export(t.Context(), r.Manager)
	if x == nil || x.Target != nil || err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Fatalf("%+v, %v", x, err)
	}
	spare, err := x.WithoutHosts()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Moved{x, spare} {
		next := newRig(t, func(c *Config) { c.Moved = x })
		next.apply(x.Document)
		if b := next.memoryOf()[:7]; string(b) != "written" {
			t.Errorf("%q", b)
		}
		if _, err := Adopt(next.Manager); err == nil {
			t.Error("hosts without a record")
		}
		if err := errors.Join(next.Close(), x.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestExportWithoutDescriptors: if there is no descriptor for the memory, the target continues, hosts can connect,
// and a later attempt succeeds.
func TestExportWithoutDescriptors(t *testing.T) {
	r := newRig(t)
	r.apply(r.doc(first))
	full := new(memory.Pool)
	s, err := memory.New(memory.Config{Size: 1 << 20, Pool: full})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := full.File()
	pool := r.stores.pool
	r.stores.pool = full
	if err := errors.Join(s.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if x, err := Export(t.Context(), r.Manager); x != nil || err == nil {
		t.Fatalf("%+v, %v", x, err)
	}
	r.stores.pool = pool
	_ = newReturner(r).until(waitForHost).Disconnect(t.Context())
	x, err := Export(t.Context(), r.Manager)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// memoryDoc has memory whose reservations are in a file.
const memoryDoc = `version: 1
subsystems:
  - nqn: a
    hosts:
      - nqn: h1
    namespaces:
      - nsid: 2
        uuid: 11111111-2222-3333-4444-555555555555
        memory:
          size: 1MiB
        reservations: DIR/r
`

// wantWritten checks the data of the second namespace in memory, once nothing waits.
func (r *rig) wantWritten() {
	r.t.Helper()
	r.await("nothing waits", func() bool { return len(r.Status().Waiting) == 0 })
	if b := r.memoryOf()[:7]; string(b) != "written" {
		r.t.Errorf("memory has %q", b)
	}
}

// move returns another Manager, which continues with the target.
func (r *rig) move() *rig {
	r.t.Helper()
	x, err := Export(r.t.Context(), r.Manager)
	if err != nil {
		r.t.Fatal(err)
	}
	r.exported()
	next := newRig(r.t, func(c *Config) { c.Moved = x })
	if _, err := next.Apply(x.Document, Options{Wait: true}); err != nil {
		r.t.Fatal(err)
	}
	begin, err := Adopt(next.Manager)
	if err != nil {
		r.t.Fatal(err)
	}
	begin()
	return next
}

// TestMovedMemoryThatWaits: memory of another Manager waits for its reservations. What hosts have written is there
// when it is opened, and is moved along if it is moved again before.
func TestMovedMemoryThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(r.doc(memoryDoc))
	copy(r.memoryOf(), "written")
	r.exported = func() { r.write("r", []byte("rubbish")) }
	move := func(from *rig) *rig {
		next := from.move()
		if w := next.Status().Waiting; len(w) != 1 || !strings.Contains(w[0].Why, "reservation") {
			t.Fatalf("waiting are %v", w)
		}
		return next
	}
	next := move(move(r))
	if err := os.Remove(r.dir + "/r"); err != nil {
		t.Fatal(err)
	}
	next.wantWritten()
	next.apply(r.doc("version: 1\n"))
	if len(next.stores.held) > 0 {
		t.Error("memory that no namespace waits for any more is kept")
	}
}

// TestMovedMemoryThatIsNotOpened: if the memory of another Manager cannot be mapped at first, its namespace waits,
// and does not get other memory.
func TestMovedMemoryThatIsNotOpened(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(r.doc(memoryDoc))
	copy(r.memoryOf(), "written")
	x, err := Export(t.Context(), r.Manager)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := x.Memory.File()
	at := x.Offsets[string(keyOf("a", x.Document.Subsystems[0].Namespaces[0]))]
	header := make([]byte, 16)
	if _, err := f.ReadAt(header, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, len(header)), at); err != nil {
		t.Fatal(err)
	}
	next := newRig(t, func(c *Config) { c.Moved = x })
	if _, err := next.Apply(x.Document, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if w := next.Status().Waiting; len(w) != 1 {
		t.Errorf("waiting are %v", w)
	}
	if _, err := f.WriteAt(header, at); err != nil {
		t.Fatal(err)
	}
	next.wantWritten()
}

// TestUndoneMemoryThatWaits: if a change is undone and the reservations of memory are found damaged, the data is
// there when they are repaired, whether or not the change replaced the memory.
func TestUndoneMemoryThatWaits(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string][]string{"kept": {"reservations: DIR/r", "reservations: DIR/q"}, "replaced": {"size: 1MiB\n        reservations: DIR/r", "size: 2MiB"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.apply(r.doc(memoryDoc))
			copy(r.memoryOf(), "written")
			r.write("r", []byte("rubbish"))
			want := r.doc(strings.NewReplacer(edit...).Replace(memoryDoc))
			want.Listeners = append(want.Listeners, &config.Listener{ID: 99, Address: config.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:4420")}})
			if _, err := r.Apply(want, Options{Force: true}); err == nil || !strings.Contains(err.Error(), "not all earlier steps could be undone: namespace 2 of a waits") {
				t.Fatal(err)
			}
			if err := os.Remove(r.dir + "/r"); err != nil {
				t.Fatal(err)
			}
			r.wantWritten()
			r.wantState(r.doc(memoryDoc))
		})
	}
}

// TestMovedFailure: a store that accepts no writes also accepts none in the process that continues with its hosts,
// or when it is opened with other options, until the failure is cleared. Then it does, also in the next process.
func TestMovedFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	document := `version: 1
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, file: {path: DIR/disk, size: 1MiB, buffered: BUFFERED}}]
`
	file := func(r *rig) backend.Failer {
		for _, h := range r.stores.held {
			return h.store.(backend.Failer)
		}
		t.Fatal("no store is open")
		return nil
	}
	doc := func(of *rig, buffered string) *config.Document {
		return of.doc(strings.ReplaceAll(strings.ReplaceAll(document, "BUFFERED", buffered), "DIR", r.dir))
	}
	r.apply(doc(r, "false"))
	file(r).Fail(errors.New("a flush has failed"))
	next := r.move().move()
	if err := file(next).Failed(); err == nil || strings.Count(err.Error(), "takes no more writes") != 1 {
		t.Errorf("after two moves it has failed because of %v", err)
	}
	next.apply(doc(next, "true"))
	if err := file(next).Failed(); err == nil || !strings.HasSuffix(err.Error(), "a flush has failed") {
		t.Errorf("with other options it has failed because of %v", err)
	}
	if err := file(next).Clear(); err != nil {
		t.Fatal(err)
	}
	if err := file(next.move()).Failed(); err != nil {
		t.Errorf("a failure that was cleared: %v", err)
	}
}
