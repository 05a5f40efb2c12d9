package interop

import (
	"regexp"
	"testing"
	"time"
)

// portGone is what nvmet says when a subsystem leaves a port with controllers, and our
// host when it is connected to by another name.
var portGone = regexp.MustCompile(`nvmet(_rdma)?: |nvme nvme\d+: `)

// TestOurDiscovery: our host follows the kernel's discovery controllers, which refer to
// each other, change, and have a name of their own; it connects to what they list, and
// again when the kernel has ended that.
func TestOurDiscovery(t *testing.T) {
	needGuest(t)
	needOneGuest(t)
	l := newLab(t)
	s := setting{"memory", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	e := s.env()
	e["addr"], e["host"] = s.hostAddr(), s.peerAddr() // the kernel serves
	serve := func(action string) {
		l.onHost(t, time.Minute, "nvmet", e.with(env{"storage": "memory", "action": action}))
	}
	serve("start")
	t.Cleanup(func() { serve("stop") })
	l.cleanUpAtEnd(t)
	at := l.logEnd(t)
	l.onPeer(t, 4*time.Minute, "ourdiscovery", e.with(env{"transport": "softroce", "unique": "nqn.2026-11.org.example:discovery"}))
	l.wantCleanLog(t, at, portGone)
}
