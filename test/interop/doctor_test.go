package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestDoctor: nvmeof doctor is right about a machine without RDMA and about one with rxe, where it is compared with
// ibv_devinfo; with and without verbs, as root and as user nobody.
func TestDoctor(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerSoftroce)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	l.buildVerbs(t, filepath.Join(l.peerDir, "nvmeof-verbs"))
	l.onHost(t, time.Minute, "foreground", env{"command": "cp /mnt/host/nvmeof-verbs /usr/local/bin/"})
	l.onHost(t, time.Minute, "doctor", env{"rxe": "no"})
	l.link(t, 1500)
	t.Log(l.onHost(t, 2*time.Minute, "doctor", env{"rxe": "yes"}))
}

// buildVerbs builds the program with the verbs transport.
func (l *lab) buildVerbs(t *testing.T, to string) {
	t.Helper()
	build := exec.Command("go", "build", "-C", "../..", "-tags", "verbs", "-o", to, "./cmd/nvmeof")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags verbs: %v\n%s(needs gcc, libibverbs-dev and librdmacm-dev)", err, out)
	}
}
