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

// What the kernel logs when it gives a controller up for good.
var givenUp = regexp.MustCompile(`Removing ctrl|is not allowed|Connect .* failed|will not retry|ret=16\d{3}`)

// TestHostReturns: a target with 3,000 namespaces, of which the kernel's host may use two, is
// killed and started again, and the host tries to come back all the time while it starts.
// It always has its disks again, under their names, and who writes to one never sees an
// error. Nor when the target comes back without the file of one: who writes there waits.
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
