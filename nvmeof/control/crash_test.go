package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// crashDocument has everything that a target stores: a file that it creates for a namespace with an identity that
// hosts know, reservations, and counters.
const crashDocument = `version: 1
subsystems:
  - nqn: a
    state: DIR/state
    namespaces:
      - nsid: 1
        nguid: "00112233445566778899aabbccddeeff"
        file:
          path: DIR/disk
          size: 64KiB
        reservations: DIR/resv
`

// A crashRig is a target whose files are all in a file system with simulated power failures.
type crashRig struct {
	*rig
	disk *faultyfs.FS
}

func newCrashRig(t *testing.T, disk *faultyfs.FS) *crashRig {
	r := newRig(t, func(c *Config) {
		c.State, c.File = filepath.Join(disk.Dir, "var/files"), filepath.Join(disk.Dir, "target.yaml")
	})
	r.dir = disk.Dir
	return &crashRig{r, disk}
}

// restart starts a target from the contents of the disk, as the program does. It returns what its namespace waits
// for, if it waits.
func (c *crashRig) restart(m *faultyfs.Image) (waits string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.disk.Dir, "target.yaml"))
	if err != nil {
		text = []byte(strings.ReplaceAll(crashDocument, "DIR", c.disk.Dir))
	}
	doc, _, err := config.Parse("target.yaml", text)
	if err != nil {
		c.t.Errorf("after %d changes%s the configuration is %q: %v", m.After, m.Lost, text, err)
		return ""
	}
	r := newCrashRig(c.t, c.disk)
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		c.t.Errorf("after %d changes%s it does not start: %v", m.After, m.Lost, err)
	}
	s := r.Status()
	for _, w := range s.Waiting {
		waits += w.Why
	}
	if n := len(s.Waiting) + len(r.target.Subsystems()[0].Namespaces()); n != len(doc.Subsystems[0].Namespaces) {
		c.t.Errorf("after %d changes%s %d namespaces are there or waited for, want %d", m.After, m.Lost, n, len(doc.Subsystems[0].Namespaces))
	}
	if err := r.Close(); err != nil {
		c.t.Error(err)
	}
	return waits
}

// TestPowerFails: whenever power fails, the next start finds the state before or after the operation, and serves
// it. Operations that had ended are complete. That includes the note that a file existed: a missing file is not
// created again although hosts know it, and missing reservations are not treated as none.
func TestPowerFails(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		c := newCrashRig(t, disk)
		more := strings.ReplaceAll(crashDocument, "64KiB", "96KiB") + "      - nsid: 2\n        memory:\n          size: 1MiB\n"
		record := c.stores.reservationFile(config.Path(filepath.Join(disk.Dir, "resv")))
		for _, step := range []struct {
			what  string
			do    func() error
			keeps string // a file that must exist from then on
		}{
			{"the first start", func() error { c.apply(c.doc(crashDocument)); return nil }, "disk"},
			{"reservations are saved", func() error { return record.Save(freeRecord) }, "resv"},
			{"the configuration is saved", func() error { _, err := c.Save(""); return err }, ""},
			{"a change is made and saved", func() error {
				_, err := c.Apply(c.doc(more), Options{Save: true})
				return err
			}, "disk"},
			{"the end", func() error { return c.Close() }, ""},
		} {
			t.Log(step.what)
			disk.Begin()
			if err := step.do(); err != nil {
				t.Fatal(step.what, err)
			}
			disk.EveryCrash(func(m *faultyfs.Image) {
				if m.Last && step.keeps != "" {
					c.without(m, step.keeps)
				}
				if waits := c.restart(m); waits != "" {
					t.Errorf("%s: after %d changes%s it waits for %s", step.what, m.After, m.Lost, waits)
				}
			})
		}
	})
}

// TestErasedForGood: a file that was erased is still gone after a power failure, even if nothing else in its folder
// is saved.
func TestErasedForGood(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		c := newCrashRig(t, disk)
		folder := filepath.Join(disk.Dir, "volumes")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		c.apply(c.doc(strings.ReplaceAll(crashDocument, "DIR/disk", "DIR/volumes/disk")))
		if _, err := c.Save(""); err != nil {
			t.Fatal(err)
		}
		disk.Begin()
		if _, err := Erase(c.Manager, "a", 1, Options{Save: true}); err != nil {
			t.Fatal(err)
		}
		disk.EveryCrash(func(m *faultyfs.Image) {
			if _, err := os.Lstat(filepath.Join(folder, "disk")); m.Last && err == nil {
				t.Errorf("what was erased is there again, with%s", m.Lost)
			}
		})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// without starts a target while a file is missing, for which it must wait.
func (c *crashRig) without(m *faultyfs.Image, name string) {
	c.t.Helper()
	path := filepath.Join(c.disk.Dir, name)
	if err := os.Rename(path, path+".away"); err != nil {
		c.t.Errorf("%s: it was done, and%s: %v", name, m.Lost, err)
		return
	}
	if waits := c.restart(m); !strings.Contains(waits, "is missing") {
		c.t.Errorf("%s is missing, with%s, and the target waits for %q", name, m.Lost, waits)
	}
	if err := os.Rename(path+".away", path); err != nil { // also over one that was created
		c.t.Fatal(err)
	}
}

// freeRecord is a record without reservations.
var freeRecord = []byte(`{"version":1,"crc32c":"147e9acc","state":null}`)
