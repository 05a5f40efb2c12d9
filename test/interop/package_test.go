package interop

import (
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// pathFailed matches what the host logs when a target that ends takes a path away. Requests that fail on a path
// (nvme0c0n1) are repeated; only an error of the disk (nvme0n1) reaches its user.
var pathFailed = regexp.MustCompile(controllerLost.String() + `|\bnvme\d+c\d+n\d+\b`)

// TestPackage: the Debian package installs and serves a Linux host. It is upgraded, and replaced by nvmeof-verbs, while
// the host works, which must see no error. Purging it removes everything but the administrator's files.
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
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 10_000})) // other tests judge how long it takes
	l.onHost(t, 2*time.Minute, "purge", nil)
}
