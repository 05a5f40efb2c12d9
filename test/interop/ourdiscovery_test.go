package interop

import (
	"regexp"
	"testing"
	"time"
)

// portGone matches what nvmet logs when a subsystem leaves a port that has controllers, and when our host connects
// under another name.
var portGone = regexp.MustCompile(`nvmet(_rdma)?: |nvme nvme\d+: `)

// TestOurDiscovery: our host follows the kernel's discovery controllers, which refer to each other, change, and have a
// unique name. It connects to the subsystems that they list, and reconnects when the kernel has ended a connection.
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
