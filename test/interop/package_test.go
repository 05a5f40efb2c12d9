package interop

import (
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// pathFailed is what the host logs when a target that ends takes a path: requests that fail
// there (nvme0c0n1) are repeated, and only an error of the disk (nvme0n1) is one of its user's.
var pathFailed = regexp.MustCompile(controllerLost.String() + `|\bnvme\d+c\d+n\d+\b`)

// TestPackage: the Debian package installs, serves a Linux host, is upgraded and replaced by
// nvmeof-verbs while that host works, which sees no error, and is purged but for what is the
// administrator's.
func TestPackage(t *testing.T) {
	needGuest(t)
	l := newSingle(t, peerSoftroce, guest.Config{CPUs: 4, Systemd: true})
	for version, wanted := range map[string]string{"1": "nvmeof/amd64", "2": "nvmeof/amd64", "3": "nvmeof-verbs/amd64"} {
		build := exec.CommandContext(t.Context(), "../../deploy/packages/build", "-o", l.hostDir, "-v", version, wanted)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	s := setting{"file", 1500, "ipv4"}
	e := s.env()
	l.link(t, s.mtu)
	l.onHost(t, 4*time.Minute, "package", e)
	at := l.logEnd(t)
	l.onHost(t, time.Minute, "connect", e)
	for _, to := range []env{{"package": "nvmeof", "number": 2}, {"package": "nvmeof-verbs", "number": 3}} {
		l.onHost(t, 20*time.Second, "load", e.with(env{"action": "start", "mib": 32}))
		l.onHost(t, 4*time.Minute, "upgrade", to)
		l.onHost(t, 5*time.Minute, "load", e.with(env{"action": "finish", "limit": 240}))
		if to["package"] == "nvmeof" { // the new version has taken over
			at = l.wantCleanLog(t, at, nil)
		}
	}
	l.wantCleanLog(t, at, pathFailed)                                          // the other package has stopped the target, and started its own
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 10_000})) // how long it takes is for other tests
	l.onHost(t, 2*time.Minute, "purge", nil)
}
