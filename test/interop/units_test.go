package interop

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// TestSystemd: the units of deploy work under systemd, with all the restrictions that they set. It runs a confined
// target, a connection to it with its disks by NBD, and ends both.
func TestSystemd(t *testing.T) {
	needGuest(t)
	machine.take(t, 1)
	l := &lab{peer: peerSoftroce, dir: artefacts(t), installed: map[string]bool{}}
	l.host = l.boot(t, "guest", guest.Config{CPUs: 4, Systemd: true})
	l.hostDir = filepath.Join(l.dir, "guest")
	l.peerDir = l.hostDir
	l.install(t, "./cmd/nvmeof", "nvmeof")
	units, err := filepath.Glob("../../deploy/*.service")
	if err != nil || len(units) != 3 {
		t.Fatalf("%q, %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err == nil {
			err = os.WriteFile(filepath.Join(l.hostDir, filepath.Base(unit)), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Log(l.onHost(t, 4*time.Minute, "units", env{"nqn": targetNQN}))
}
