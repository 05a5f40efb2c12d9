package interop

import (
	"flag"
	"regexp"
	"testing"
	"time"
)

var (
	kills      = flag.Int("kills", 20, "how often TestHostReturns kills its target")
	namespaces = flag.Int("namespaces", 3000, "how many namespaces that target has")
)

// givenUp matches what the kernel logs when it gives a controller up for good.
var givenUp = regexp.MustCompile(`Removing ctrl|is not allowed|Connect .* failed|will not retry|ret=16\d{3}`)

// TestHostReturns: a target with 3,000 namespaces, of which the kernel's host may use two, is killed and started again.
// The host tries to reconnect all the time while the target starts. It must always get its disks back under their
// names, and a program that writes to one must never see an error. The same holds if the target comes back without the
// file of one: a program that writes to that disk waits.
func TestHostReturns(t *testing.T) {
	needGuest(t)
	if *peer == peerKernel {
		t.Skip("it is our target that starts")
	}
	l := newLab(t)
	l.link(t, 1500)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	e := setting{"memory", 1500, "ipv4"}.env().with(env{"transport": l.transport(), "allow": hostNQN, "each": *namespaces / 3})
	target := func(action string) { t.Helper(); l.onPeer(t, 3*time.Minute, "many", e.with(env{"action": action})) }
	host := func(action string) { t.Helper(); l.onHost(t, 3*time.Minute, "returns", e.with(env{"action": action})) }
	target("start")
	t.Cleanup(func() {
		l.cleanUp(t)
		target("stop")
	})
	from := l.logEnd(t)
	host("connect")
	for range *kills {
		target("kill")
		host("away")
		target("launch")
		host("back")
	}
	target("kill")
	host("away")
	target("hide")
	target("launch")
	host("without")
	target("show")
	host("with")
	for _, line := range l.log.lines(t, l.scripts)[from:] {
		if givenUp.MatchString(line.text) {
			t.Errorf("kernel log: %s", line.text)
		}
	}
	host("end")
	l.wantCleanLog(t, from, controllerLost)
}
