package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/kept"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// reserve returns a change by which a host registers and reserves, with or without persistence.
func reserve(persist bool) func(reservation.State) (reservation.State, reservation.Outcome) {
	return func(s reservation.State) (reservation.State, reservation.Outcome) {
		s.Persist = persist
		s.Registrants = []reservation.Registrant{{Host: capsule.HostID{1}, Key: 7}}
		s.Type, s.Holder = capsule.ReservationExclusiveAccess, capsule.HostID{1}
		return s, reservation.Outcome{}
	}
}

// TestRestart: a persistent state survives, and nothing else is written.
func TestRestart(t *testing.T) {
	for _, persist := range []bool{false, true} {
		f := kept.File{Name: filepath.Join(t.TempDir(), "r"), What: "reservations"}
		k, err := newReservations(f, reservation.Owner{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newReservations(f, reservation.Owner{}, nil); err == nil || !strings.Contains(err.Error(), "another target uses them") {
			t.Errorf("a second keeper of the file: %v", err)
		}
		if _, err := k.change(k.Ask(), reserve(persist)); err != nil || k.Guard() == nil {
			t.Fatalf("reserved: %v, guard %v", err, k.Guard())
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.Name); (err == nil) != persist {
			t.Errorf("persist %v: %v", persist, err)
		}
		k, err = newReservations(f, reservation.Owner{}, nil)
		if err != nil || (k.Guard() != nil) != persist || k.State().Persist != persist {
			t.Errorf("persist %v, after the restart: %v", persist, err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDamaged: a record that cannot be read is an error with a remedy, and the file is unlocked.
func TestDamaged(t *testing.T) {
	f := kept.File{Name: filepath.Join(t.TempDir(), "r"), What: "reservations"}
	for _, content := range []string{"", "hello", `{"version":1}`} {
		if err := os.WriteFile(f.Name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newReservations(f, reservation.Owner{}, nil); err == nil || !strings.Contains(err.Error(), "from a backup") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if err := os.Remove(f.Name); err != nil {
		t.Fatal(err)
	}
	k, err := newReservations(f, reservation.Owner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// TestSymbolicLinks: a link in place of the lock file is not followed. The file itself may be a link that the
// administrator has created.
func TestSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	victim, missing := filepath.Join(dir, "victim"), filepath.Join(dir, "missing")
	f := kept.File{Name: filepath.Join(dir, "r"), What: "reservations"}
	record := filepath.Join(dir, "record")
	err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, f.Name+".new"), os.Symlink("record", f.Name))
	if err != nil {
		t.Fatal(err)
	}
	k, err := newReservations(f, reservation.Owner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.change(k.Ask(), reserve(true)); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("the file that a link leads to has %q, %v", b, err)
	}
	if info, err := os.Lstat(record); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the record: %v, %v", info, err)
	}
	if k, err = newReservations(f, reservation.Owner{}, nil); err != nil || k.Guard() == nil {
		t.Fatalf("after a restart: %v", err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}

	if err := errors.Join(os.Remove(f.Name+".lock"), os.Symlink(missing, f.Name+".lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := newReservations(f, reservation.Owner{}, nil); err == nil || !strings.Contains(err.Error(), ".lock is a symbolic link") {
		t.Errorf("a lock that is a link: %v", err)
	}
	if _, err := os.Lstat(missing); err == nil {
		t.Error("the file that the link leads to was made")
	}
}

type failing struct{}

func (failing) Load() ([]byte, error) { return nil, nil }
func (failing) Save([]byte) error     { return errors.New("disk is gone") }

// TestNotSaved: a change that cannot be saved has no effect.
func TestNotSaved(t *testing.T) {
	k, err := newReservations(failing{}, reservation.Owner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.change(k.Ask(), reserve(true))
	if err == nil || out.Status != capsule.StatusInternalError || k.Guard() != nil || len(k.State().Registrants) != 0 {
		t.Errorf("status %v, error %v, state %+v", out.Status, err, k.State())
	}
	if _, err := k.change(k.Ask(), reserve(false)); err != nil || k.Guard() == nil {
		t.Errorf("what need not be saved: %v", err)
	}
	if none, err := newReservations(nil, reservation.Owner{}, nil); err != nil || none.Persists() || ReservationCapabilities(none.Persists())&capsule.RESCAPPersist != 0 {
		t.Errorf("without a store: %v", err)
	}
}

// A late store fails after it has saved, as if the directory could not be synced.
type late struct {
	fails int // how many times
	has   []byte
}

func (l *late) Load() ([]byte, error) { return l.has, nil }
func (l *late) Save(b []byte) error {
	l.has = b
	if l.fails--; l.fails >= 0 {
		return errors.New("fsync: input/output error")
	}
	return nil
}

// TestSavedAndFailed: a change that was not acknowledged does not come back after the next change, even if that
// need not be saved.
func TestSavedAndFailed(t *testing.T) {
	store := &late{fails: 2} // including the save of the previous state
	k, err := newReservations(store, reservation.Owner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.change(k.Ask(), reserve(true)); err == nil || k.Guard() != nil {
		t.Fatalf("reserved: %v, guard %v", err, k.Guard())
	}
	if _, err := k.change(k.Ask(), func(s reservation.State) (reservation.State, reservation.Outcome) { return s, reservation.Outcome{} }); err != nil {
		t.Fatal(err)
	}
	if again, err := newReservations(store, reservation.Owner{}, nil); err != nil || again.Guard() != nil {
		t.Errorf("after a restart: %v, guard %v", err, again.Guard())
	}
}

// TestSavedAndFailedOnce: nor does it come back before the next change, if the second save succeeds.
func TestSavedAndFailedOnce(t *testing.T) {
	store := &late{}
	k, err := newReservations(store, reservation.Owner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantAfterRestart := func(reserved bool) {
		t.Helper()
		if again, err := newReservations(store, reservation.Owner{}, nil); err != nil || (again.Guard() != nil) != reserved {
			t.Errorf("after a restart: %v, guard %v", err, again.Guard())
		}
	}
	store.fails = 1
	if _, err := k.change(k.Ask(), reserve(true)); err == nil || k.Guard() != nil {
		t.Errorf("reserved: %v, guard %v", err, k.Guard())
	}
	wantAfterRestart(false)
	if _, err := k.change(k.Ask(), reserve(true)); err != nil {
		t.Fatal(err)
	}
	store.fails = 1
	free := func(reservation.State) (reservation.State, reservation.Outcome) {
		return reservation.State{Persist: true}, reservation.Outcome{}
	}
	if _, err := k.change(k.Ask(), free); err == nil || k.Guard() == nil {
		t.Errorf("released: %v, guard %v", err, k.Guard())
	}
	wantAfterRestart(true)
}
