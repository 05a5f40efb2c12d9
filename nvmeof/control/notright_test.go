package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// write writes a file of the rig.
func (r *rig) write(name string, content []byte) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), content, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// take locks a file as another target would, until letGo.
func (r *rig) take(name string) {
	r.t.Helper()
	s, err := file.Open(filepath.Join(r.dir, name), file.Config{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.taken = s.Close
}

func (r *rig) letGo() {
	if err := r.taken(); err != nil {
		r.t.Error(err)
	}
}

// TestNotRight: at a start, a faulty namespace waits, and everything else is served. The namespace is added when it
// is repaired.
func TestNotRight(t *testing.T) {
	t.Parallel()
	block := make([]byte, 1<<20)
	for name, c := range map[string]struct {
		namespace string // lines of the first namespace
		spoil     func(*rig)
		mend      func(*rig)
		why       string // empty: it is not faulty
	}{
		"missing": {"file: {path: DIR/x}", func(*rig) {}, func(r *rig) { r.write("x", block) }, "no such file"},
		"missing folder": {"file: {path: DIR/d/x}", func(*rig) {}, func(r *rig) {
			_ = os.Mkdir(r.dir+"/d", 0o700)
			r.write("d/x", block)
		}, "no such file"},
		"empty":  {"file: {path: DIR/x}", func(r *rig) { r.write("x", nil) }, func(r *rig) { r.write("x", block) }, "less than one block"},
		"folder": {"file: {path: DIR/x}", func(r *rig) { _ = os.Mkdir(r.dir+"/x", 0o700) }, func(r *rig) { _ = os.Remove(r.dir + "/x"); r.write("x", block) }, "is a directory"},
		"damaged reservations": {"file: {path: DIR/x}\n        reservations: DIR/resv", func(r *rig) {
			r.write("x", block)
			r.write("resv", []byte("rubbish"))
		}, func(r *rig) { _ = os.Remove(r.dir + "/resv") }, "reservation"},
		"empty reservations": {"file: {path: DIR/x}\n        reservations: DIR/resv", func(r *rig) {
			r.write("x", block)
			r.write("resv", nil)
		}, func(r *rig) { _ = os.Remove(r.dir + "/resv") }, "this program did not write it"},
		"in use": {"file: {path: DIR/x}", func(r *rig) {
			r.write("x", block)
			r.take("x")
		}, func(r *rig) { r.letGo() }, "in use by this process"},
		"reservations of another": {"file: {path: DIR/x}\n        reservations: DIR/resv", func(r *rig) {
			r.write("x", block)
			unlock, err := target.ReservationFile(r.dir + "/resv").Lock()
			if err != nil {
				r.t.Fatal(err)
			}
			r.taken = unlock
		}, func(r *rig) { r.letGo() }, "another target uses them"},
		"grown": {"file: {path: DIR/x, size: 512KiB}", func(r *rig) { r.write("x", block) }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.spoil(r)
			doc := r.doc(strings.Replace(first, "file:\n          path: DIR/a1\n          size: 1MiB", c.namespace, 1))
			if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
				t.Fatal(err)
			}
			h := newReturner(r)
			con := h.until(waitForHost)
			defer con.Disconnect(t.Context())
			if n, err := con.Namespace(t.Context(), 2); err != nil || n.Size() != 1<<20 {
				t.Errorf("the other namespace: %v", err)
			}
			_, err := con.Namespace(t.Context(), 1)
			if c.why == "" {
				if s := r.Status(); err != nil || len(s.Waiting) != 0 {
					t.Errorf("%v, waiting are %v", err, s.Waiting)
				}
				return
			}
			if !errors.Is(err, host.ErrNotReady) {
				t.Errorf("the namespace that waits: %v", err)
			}
			w := r.Status().Waiting
			if len(w) != 1 || w[0].NSID != 1 || !strings.Contains(w[0].Why, c.why) {
				t.Errorf("waiting are %v, want one with %q", w, c.why)
			}
			lines := r.logs.FilterMessage("namespace waits for its store").All()
			if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["why"]), c.why) {
				t.Errorf("the log has %v", lines)
			}
			c.mend(r)
			r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
			if _, err := con.Namespace(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitsForRoom: a change of the free space of a file system is not logged again for a namespace that waits for
// space. The status has the present number.
func TestWaitsForRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.Apply(r.doc(strings.Replace(first, "size: 1MiB", "size: 1024TiB", 1)), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	why := func() string {
		if w := r.Status().Waiting; len(w) == 1 {
			return w[0].Why
		}
		return ""
	}
	before := why()
	if !strings.Contains(before, "bytes are free") {
		t.Fatalf("it waits, and that is why: %s", before)
	}
	r.write("other", make([]byte, 4<<20))
	r.await("another number", func() bool { return why() != before })
	if lines := r.logs.FilterMessage("namespace waits for its store").All(); len(lines) != 1 {
		t.Errorf("the log has %v", lines)
	}
}

// TestReplacedStoreIsAwayMeanwhile: a namespace that is opened with other options never disappears for hosts, which
// would remove its disk. One that gets another identity does.
func TestReplacedStoreIsAwayMeanwhile(t *testing.T) {
	var r *rig
	var con *host.Controller
	var during []string
	r = newRig(t, func(c *Config) {
		c.Open = opens(func(n *config.Namespace) {
			if con == nil || n.NSID != 1 {
				return
			}
			_, err := con.Namespace(t.Context(), 1)
			during = append(during, fmt.Sprint(err))
		})
	})
	r.apply(r.doc(first))
	con = newReturner(r).until(waitForHost)
	defer con.Disconnect(t.Context())
	r.apply(r.doc(strings.Replace(first, "size: 1MiB\n      - nsid: 2", "size: 1MiB\n          buffered: true\n      - nsid: 2", 1)))
	if len(during) != 1 || !strings.Contains(during[0], host.ErrNotReady.Error()) {
		t.Errorf("meanwhile the host sees %q", during)
	}
	if _, err := con.Namespace(t.Context(), 1); err != nil {
		t.Errorf("and afterwards %v", err)
	}
}

// TestWaitingIsOpenedOtherwise: a namespace that waits, and is opened with other options and the same identity,
// never disappears for hosts, as when an administrator corrects what it exports.
func TestWaitingIsOpenedOtherwise(t *testing.T) {
	var r *rig
	var con *host.Controller
	var during []string
	r = newRig(t, func(c *Config) {
		c.Open = opens(func(n *config.Namespace) {
			if con == nil || n.NSID != 1 || !n.File.Buffered {
				return
			}
			_, err := con.Namespace(t.Context(), 1)
			during = append(during, fmt.Sprint(err))
		})
	})
	text := strings.Replace(first, "file:\n          path: DIR/a1\n          size: 1MiB", "uuid: 11111111-2222-3333-4444-555555555555\n        file:\n          path: DIR/a1", 1)
	if _, err := r.Apply(r.doc(text), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	con = newReturner(r).until(waitForHost)
	defer con.Disconnect(t.Context())
	r.write("a1", make([]byte, 1<<20))
	r.apply(r.doc(strings.Replace(text, "DIR/a1", "DIR/a1\n          buffered: true", 1)))
	if len(during) == 0 {
		t.Error("nothing was opened")
	}
	for _, seen := range during {
		if !strings.Contains(seen, host.ErrNotReady.Error()) {
			t.Errorf("meanwhile the host sees %q", seen)
		}
	}
	if n, err := con.Namespace(t.Context(), 1); err != nil || n.Size() != 1<<20 {
		t.Errorf("and afterwards %v", err)
	}
}

// TestWaitingGrows: a namespace that waits has the present size of the document when it is opened.
func TestWaitingGrows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("resv", []byte("rubbish"))
	text := strings.Replace(first, "size: 1MiB\n      - nsid: 2", "size: 1MiB\n        reservations: DIR/resv\n      - nsid: 2", 1)
	if _, err := r.Apply(r.doc(text), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if w := r.Status().Waiting; len(w) != 1 {
		t.Fatalf("waiting are %v", w)
	}
	if _, err := r.Apply(r.doc(strings.Replace(text, "DIR/a1\n          size: 1MiB", "DIR/a1\n          size: 2MiB", 1)), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.dir + "/resv"); err != nil {
		t.Fatal(err)
	}
	r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
	n, err := namespace(r.target.Subsystems()[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	if size := n.Info().Size; size != 2<<20 {
		t.Errorf("it has %d bytes, and its document says 2 MiB", size)
	}
}
