package control

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestRecordsRemovedBeforeTakeover: files of reservations and of a subsystem's state that were removed while a target runs
// are there again when another process takes over, or this one goes on since that could not: hosts keep what they have set.
func TestRecordsRemovedBeforeTakeover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "version: 1\nlisteners:\n  - id: 1\n    address: ADDR\nsubsystems:\n  - nqn: a\n    allow-any-host: true\n    state: DIR/state\n    namespaces:\n" +
		"      - nsid: 1\n        file: {path: DIR/one, size: 1MiB}\n        reservations: DIR/resv\n      - nsid: 2\n        file: {path: DIR/two, size: 1MiB}\n"
	r := newRig(t, func(c *Config) { c.State = dir })
	r.apply(r.doc(text))
	con := newReturner(r).until(waitForHost)
	one, err := con.Namespace(t.Context(), 1)
	two, err2 := con.Namespace(t.Context(), 2)
	if err = errors.Join(err, err2); err == nil {
		err = errors.Join(one.Reservations().Register(t.Context(), 7, host.RegisterOptions{Persist: host.PersistAlways}),
			one.Reservations().Acquire(t.Context(), 7, capsule.ReservationWriteExclusive), two.SetWriteProtection(t.Context(), capsule.WriteProtected))
	}
	if err = errors.Join(err, con.Disconnect(t.Context())); err != nil {
		t.Fatal(err)
	}
	state, resv := config.Path(r.dir+"/state"), config.Path(r.dir+"/resv")
	if err := errors.Join(os.Remove(string(state)), os.Remove(string(resv))); err != nil {
		t.Fatal(err)
	}
	next := r.after(func(c *Config) { c.State = dir })
	if err := Lacking(next.Manager); err != nil {
		t.Error(err)
	}
	if w := next.Status().Waiting; len(w) > 0 {
		t.Errorf("waiting are %v", w)
	}
	begin, err := Adopt(next.Manager)
	if err != nil {
		t.Fatal(err)
	}
	begin()
	s, err := next.subsystem("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Namespaces() {
		switch got := n.Reservation(); {
		case n.ID() == 1 && (got.Type != capsule.ReservationWriteExclusive || !got.Persist):
			t.Errorf("namespace 1 has %+v", got)
		case n.ID() == 2:
			if is, _ := n.Served(); is.Protection != capsule.WriteProtected {
				t.Errorf("namespace 2 has %+v", is)
			}
		}
	}
	if n := r.logs.FilterMessageSnippet("saved again").Len(); n != 2 {
		t.Errorf("it is logged %d times", n)
	}
	for _, p := range []config.Path{state, resv} {
		if b, err := os.ReadFile(string(p)); err != nil || !strings.Contains(string(b), "crc32c") {
			t.Errorf("%s has %q, %v", p, b, err)
		}
	}
}
