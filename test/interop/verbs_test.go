package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestVerbs runs the tests of package verbs on the kernel's rxe, which communicates with itself. Objects that remain on
// the device would be a leak.
func TestVerbs(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	l.installVerbsTest(t)
	logged := l.logEnd(t)
	cycles := 200
	if *whole {
		cycles = 1000
	}
	v4 := env{"addr": "10.9.0.2", "nowhere": "10.9.0.99", "flags": ""}
	v6 := env{"addr": "fd09::2", "nowhere": "fd09::99", "flags": ""}
	for _, c := range []struct {
		name string
		env  env
	}{
		{"suite,at=10.9.0.2", v4.with(env{"tests": "TestSuite"})},
		{"suite,at=fd09::2", v6.with(env{"tests": "TestSuite"})},
		{"dma-buf", v4.with(env{"tests": "TestDMABuf"})},
		{"cycles", v4.with(env{"tests": "TestCycles|TestListenAgain", "flags": fmt.Sprint("-cycles ", cycles), "limit": 500})},
		{"removal", v4.with(env{"tests": "TestRemoval", "flags": "-remove rxe0 -test.timeout 40s"})},
		{"return", v4.with(env{"tests": "TestCycles", "flags": "-cycles 10"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.link(t, 1500) // which adds a device that was removed
			t.Log(l.onHost(t, 10*time.Minute, "verbs", c.env))
		})
	}
	// The suite's WindowOfDeregistered deregisters memory under a window: rdma_rxe refuses that, and logs it.
	l.wantCleanLog(t, logged, regexp.MustCompile(`non-flush error status|rxe_dereg_mr: +returned err = -22`))
}

// installVerbsTest builds the package's test with cgo and copies it to the guest, which has the libraries.
func (l *lab) installVerbsTest(t *testing.T) {
	t.Helper()
	build := exec.Command("go", "test", "-C", "../..", "-c", "-tags", "verbs", "-ldflags=-s -w", "-o", filepath.Join(l.hostDir, "verbs.test"), "./rdmatransport/verbs")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c -tags verbs: %v\n%s(needs gcc, libibverbs-dev and librdmacm-dev)", err, out)
	}
	l.onHost(t, time.Minute, "foreground", env{"command": "cp /mnt/host/verbs.test /usr/local/bin/"})
}
