package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestVerbs runs the tests of package verbs on the kernel's rxe, which talks to
// itself. What it leaves behind on the device would be a leak.
func TestVerbs(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	l.link(t, 1500)
	l.installVerbsTest(t)
	logged := l.logEnd(t)
	for addr, nowhere := range map[string]string{"10.9.0.2": "10.9.0.99", "fd09::2": "fd09::99"} {
		t.Run(addr, func(t *testing.T) {
			out := l.onHost(t, 4*time.Minute, "verbs", env{"addr": addr, "nowhere": nowhere})
			t.Log(out)
		})
	}
	l.wantCleanLog(t, logged, regexp.MustCompile(`non-flush error status`))
}

// installVerbsTest builds the package's test with cgo and puts it in the guest, which
// has the libraries.
func (l *lab) installVerbsTest(t *testing.T) {
	t.Helper()
	build := exec.Command("go", "test", "-C", "../..", "-c", "-tags", "verbs", "-o", filepath.Join(l.hostDir, "verbs.test"), "./rdmatransport/verbs")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c -tags verbs: %v\n%s(needs gcc, libibverbs-dev and librdmacm-dev)", err, out)
	}
	l.onHost(t, time.Minute, "foreground", env{"command": "cp /mnt/host/verbs.test /usr/local/bin/"})
}
