package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// pipe creates a file that cannot be read or written for a while: a pipe without another end.
func (r *rig) pipe(name string) config.Path {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { // a reader must be able to read to the end
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteString("end")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			r.t.Error(err)
		}
	})
	return config.Path(path)
}

// wantHung checks that a change soon returns a HungError for the path.
func (r *rig) wantHung(p config.Path, change func() error) {
	r.t.Helper()
	began := time.Now()
	var hung *HungError
	if err := change(); !errors.As(err, &hung) || hung.Path != p {
		r.t.Errorf("%v, want that %s hangs", err, p)
	}
	if took := time.Since(began); took > 4*time.Second {
		r.t.Errorf("it took %v", took)
	}
}

// TestHungRecords: if the file system of reservations, state, keys or the saved document does not answer, only
// changes that need it fail.
func TestHungRecords(t *testing.T) {
	t.Parallel()
	r, _ := newHanging(t)
	path := r.pipe("pipe")
	const text = `version: 1
subsystems:
  - nqn: a
    namespaces:
      - {nsid: 1, memory: {size: 1MiB}}
`
	before := r.doc(text)
	r.changeTimeout = changeTimeout
	r.apply(before)
	for _, with := range []string{
		strings.Replace(text, "1MiB}", "1MiB}}\n      - {nsid: 2, memory: {size: 1MiB}, reservations: DIR/pipe", 1),
		text + "  - nqn: b\n    state: DIR/pipe\n",
		text + "    state: DIR/pipe\n",
	} {
		for _, o := range []Options{{}, {DryRun: true}} {
			r.changeTimeout = 200 * time.Millisecond
			r.wantHung(path, func() error { _, err := r.Apply(r.doc(with), o); return err })
			r.wantState(before)
		}
		r.changeTimeout = changeTimeout                          // a disk may be busy
		r.apply(r.doc(strings.ReplaceAll(with, "pipe", "file"))) // another change does not wait
		r.apply(before)
	}
	r.changeTimeout = 200 * time.Millisecond
	r.wantHung(path, func() error { _, err := r.Save(string(path)); return err })
	r.wantHung(path, func() error {
		_, err := r.Apply(r.doc(text+"  - nqn: c\n"), Options{Save: true, File: string(path)})
		return err
	})
	r.wantState(before)
}

// TestStartWithHungRecords: at a start, namespaces wait for records that do not answer, and the others are served.
func TestStartWithHungRecords(t *testing.T) {
	t.Parallel()
	r, _ := newHanging(t)
	r.pipe("reservations")
	r.pipe("state")
	doc := r.doc(`version: 1
subsystems:
  - nqn: a
    namespaces:
      - {nsid: 1, memory: {size: 1MiB}, reservations: DIR/reservations}
      - {nsid: 2, memory: {size: 1MiB}}
  - nqn: b
    state: DIR/state
    namespaces:
      - {nsid: 1, memory: {size: 1MiB}}
`)
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	waiting := r.Status().Waiting
	if len(waiting) != 2 || waiting[0].Subsystem != "a" || waiting[1].Subsystem != "b" {
		t.Errorf("waiting: %+v", waiting)
	}
	for _, w := range waiting {
		if w.NSID != 1 || !strings.Contains(w.Why, "has not answered since") {
			t.Errorf("waiting: %+v", w)
		}
	}
}

// TestHungRecord: a record that takes too long to save is an error; other calls fail at once until it has ended.
func TestHungRecord(t *testing.T) {
	t.Parallel()
	r, _ := newHanging(t)
	path := r.pipe("pipe")
	for range 2 {
		f := r.stores.reservationFile(path)
		if f != r.stores.reservationFile(path) {
			t.Error("two of one file differ")
		}
		r.wantHung(path, func() error { return f.Save([]byte("record")) }) // it waits for a reader
	}
	in, err := os.OpenFile(string(path), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	b := make([]byte, 100)
	if n, err := in.Read(b); err != nil || string(b[:n]) != "record" {
		t.Errorf("%q, %v", b[:n], err)
	}
	r.stores.calls.Wait()
	r.stores.setRecordTime(changeTimeout)
	if err := r.stores.reservationFile(path).Save([]byte("another")); err != nil {
		t.Error(err)
	}
}

// TestNotPutInPlace: a record that is saved while another call for its path hangs does not replace the file later,
// and no temporary file is left.
func TestNotPutInPlace(t *testing.T) {
	r := newRig(t)
	path := config.Path(filepath.Join(r.dir, "state"))
	hang := make(chan struct{})
	staged, err := stage(&r.stores.reacher, time.Minute, path, []byte("new"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = reachFor(&r.stores.reacher, time.Millisecond, path, func() (struct{}, error) { <-hang; return struct{}{}, nil }, nil)
	for _, err := range []error{err, commit(&r.stores.reacher, time.Minute, path, staged)} {
		if !errors.As(err, new(*HungError)) {
			t.Errorf("%v, want that it hangs", err)
		}
	}
	close(hang)
	r.stores.calls.Wait()
	if there, _ := filepath.Glob(r.dir + "/.*"); len(there) > 0 {
		t.Errorf("%q stay", there)
	}
	if _, err := os.Stat(string(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was put in its place though its saving had failed: %v", err)
	}
}

// A hungFile is a reservation file that cannot be read for a while.
type hungFile struct {
	target.ReservationFile
	hang <-chan struct{}
}

func (f hungFile) Load() ([]byte, error) { <-f.hang; return f.ReservationFile.Load() }

// TestLockedWhileHung: a file that was locked when its file system hung can be locked again when that has answered.
func TestLockedWhileHung(t *testing.T) {
	r := newRig(t)
	hang := make(chan struct{})
	f := r.stores.reservationFile(config.Path(filepath.Join(r.dir, "resv")))
	f.file = hungFile{target.ReservationFile(f.path), hang}
	r.stores.begin(time.Minute)
	unlock, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	r.stores.begin(time.Millisecond)
	if _, err := f.Load(); !errors.As(err, new(*HungError)) {
		t.Errorf("%v, want that it hangs", err)
	}
	if err := unlock(); !errors.As(err, new(*HungError)) {
		t.Errorf("%v, want that it hangs", err)
	}
	close(hang)
	r.stores.calls.Wait()
	r.stores.begin(time.Minute)
	if unlock, err = f.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
