package control

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestRecordsLostInUse: files of reservations and of a subsystem's state that were removed or damaged while a target runs
// are whole again when another process takes over, or this one goes on since that could not, and at the next start: hosts
// keep what they have set.
func TestRecordsLostInUse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		lose   func(string) error
		begins bool // the next process begins when the one before has ended
	}{
		{"removed and taken over", os.Remove, false},
		{"removed and ended", os.Remove, true},
		{"cut and taken over", func(p string) error { return os.Truncate(p, 9) }, false},
		{"cut and ended", func(p string) error { return os.Truncate(p, 9) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := newRig(t, func(c *Config) { c.State = dir })
			r.apply(r.doc(recordsText))
			setRecords(r)
			state, resv := r.dir+"/state", r.dir+"/resv"
			if err := errors.Join(test.lose(state), test.lose(resv)); err != nil {
				t.Fatal(err)
			}
			var next *rig
			if test.begins {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				next = newRig(t, func(c *Config) { c.State = dir })
				next.dir, next.addr = r.dir, r.addr
				if _, err := next.Apply(next.doc(recordsText), Options{Wait: true}); err != nil {
					t.Fatal(err)
				}
			} else {
				next = r.after(func(c *Config) { c.State = dir })
				if begin, err := Adopt(next.Manager); err != nil {
					t.Error(err)
				} else {
					begin()
				}
			}
			wantRecords(next)
			if n := r.logs.FilterMessageSnippet("saved again").Len(); n != 2 {
				t.Errorf("it is logged %d times", n)
			}
			for _, p := range []string{state, resv} {
				if b, err := os.ReadFile(p); err != nil || !strings.Contains(string(b), "crc32c") {
					t.Errorf("%s has %q, %v", p, b, err)
				}
			}
		})
	}
}

// TestRecordsNeverKnown: a target whose namespaces wait for a file of a state that is missing does not say as it ends that it
// has saved what hosts have set: it does not know that, and the next start waits too.
func TestRecordsNeverKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, func(c *Config) { c.State = dir })
	r.apply(r.doc(recordsText))
	setRecords(r)
	if err := errors.Join(r.Close(), os.Remove(r.dir+"/state")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		next := newRig(t, func(c *Config) { c.State = dir })
		next.dir, next.addr = r.dir, r.addr
		if _, err := next.Apply(next.doc(recordsText), Options{Wait: true}); err != nil {
			t.Fatal(err)
		}
		if w := next.Status().Waiting; len(w) != 2 {
			t.Errorf("waiting are %v", w)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
		if n := next.logs.FilterMessageSnippet("saved again").Len(); n != 0 {
			t.Errorf("it is logged %d times that it is saved", n)
		}
		if _, err := os.Stat(r.dir + "/state"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file was begun anew: %v", err)
		}
	}
}

const recordsText = "version: 1\nlisteners:\n  - id: 1\n    address: ADDR\nsubsystems:\n  - nqn: a\n    allow-any-host: true\n    state: DIR/state\n    namespaces:\n" +
	"      - nsid: 1\n        file: {path: DIR/one, size: 1MiB}\n        reservations: DIR/resv\n      - nsid: 2\n        file: {path: DIR/two, size: 1MiB}\n"

// setRecords has a host set what is to survive.
func setRecords(r *rig) {
	r.t.Helper()
	ctx := r.t.Context()
	con := newReturner(r).until(waitForHost)
	one, err := con.Namespace(ctx, 1)
	two, err2 := con.Namespace(ctx, 2)
	if err = errors.Join(err, err2); err == nil {
		err = errors.Join(one.Reservations().Register(ctx, 7, host.RegisterOptions{Persist: host.PersistAlways}),
			one.Reservations().Acquire(ctx, 7, capsule.ReservationWriteExclusive), two.SetWriteProtection(ctx, capsule.WriteProtected))
	}
	if err = errors.Join(err, con.Disconnect(ctx)); err != nil {
		r.t.Fatal(err)
	}
}

func wantRecords(r *rig) {
	r.t.Helper()
	if err := Lacking(r.Manager); err != nil {
		r.t.Error(err)
	}
	if w := r.Status().Waiting; len(w) > 0 {
		r.t.Errorf("waiting are %v", w)
	}
	s, err := r.subsystem("a")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range s.Namespaces() {
		switch got := n.Reservation(); {
		case n.ID() == 1 && (got.Type != capsule.ReservationWriteExclusive || !got.Persist):
			r.t.Errorf("namespace 1 has %+v", got)
		case n.ID() == 2:
			if is, _ := n.Served(); is.Protection != capsule.WriteProtected {
				r.t.Errorf("namespace 2 has %+v", is)
			}
		}
	}
}
