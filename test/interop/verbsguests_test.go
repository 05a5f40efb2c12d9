package interop

import (
	"testing"
	"time"
)

// TestVerbsGuests: our program over verbs on an rxe of its own, with the kernel's
// host and target in another guest: a part of what -peer=verbs has all tests do.
func TestVerbsGuests(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerVerbs)
	l.link(t, 1500)
	t.Run("target", func(t *testing.T) { l.judge(t, setting{"memory", 1500, "ipv4"}) })
	t.Run("host", func(t *testing.T) { l.hostAgainstKernel(t, setting{"memory", 1500, "ipv4"}) })
	t.Run("host,loss", l.verbsHostUnderLoss)
	t.Run("target,loss", func(t *testing.T) {
		l.impaired(t, impairment{name: "target-loses", atPeer: true, impair: "loss 1%", filter: "all"})
	})
	l.link(t, 9000)
	t.Run("host,mtu=9000,ipv6", func(t *testing.T) { l.hostAgainstKernel(t, setting{"memory", 9000, "ipv6"}) })
}

// verbsHostUnderLoss: our host over verbs loses a part of what it sends, and nvmet too.
func (l *lab) verbsHostUnderLoss(t *testing.T) {
	s := setting{"memory", 1500, "ipv4"}
	e := s.env().with(env{"addr": s.hostAddr(), "host": s.peerAddr(), "storage": s.storage, "provider": "verbs", "windows": "auto"})
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	t.Cleanup(func() { l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "stop"})) })
	l.loss(t, "loss 3%")
	defer l.loss(t, "")
	l.onPeer(t, 3*time.Minute, "ourload", e.with(env{"seconds": 2}))
}
