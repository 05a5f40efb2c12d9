package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// TestVerbsTarget: the kernel's host uses our target on the same rxe device, once with --transport verbs and once with
// auto, which must choose verbs. Then the target runs in its sandbox, with an NVMe drive and an ATA disk whose SMART
// data it reads, over both transports.
func TestVerbsTarget(t *testing.T) {
	needGuest(t)
	l := newSingle(t, peerSoftroce, guest.Config{CPUs: 4, Drives: true})
	build := exec.Command("go", "build", "-C", "../..", "-tags", "verbs", "-o", filepath.Join(l.hostDir, "nvmeof"), "./cmd/nvmeof")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags verbs: %v\n%s(needs gcc, libibverbs-dev and librdmacm-dev)", err, out)
	}
	l.link(t, 1500)
	for _, transport := range []string{"verbs", "auto"} {
		t.Run(transport, func(t *testing.T) {
			l.cleanUpAtEnd(t)
			t.Log(l.onHost(t, 2*time.Minute, "verbstarget", env{"nqn": targetNQN, "transport": transport}))
		})
	}
	for _, transport := range []string{"verbs", "softroce"} {
		t.Run("confined,"+transport, func(t *testing.T) {
			l.cleanUpAtEnd(t)
			t.Log(l.onHost(t, 2*time.Minute, "confined", env{"nqn": targetNQN, "transport": transport}))
		})
	}
}
