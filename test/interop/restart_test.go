package interop

import (
	"strings"
	"testing"
	"time"
)

// TestTargetRestart: "Our target dies and comes back (kill -9, 5 s, start) under
// fio with --verify: the kernel reconnects by itself, fio ends with no error,
// data intact (file namespace)."
func TestTargetRestart(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	s := setting{"file", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.startTarget(t, s)
	at := l.logEnd(t)
	e := s.env()
	l.onHost(t, time.Minute, "connect", e)
	l.onHost(t, 20*time.Second, "load", e.with(env{"action": "start"}))
	time.Sleep(3 * time.Second)
	l.targetAction(t, s, "kill")
	time.Sleep(5 * time.Second)
	l.targetAction(t, s, "revive")
	l.onHost(t, 3*time.Minute, "load", e.with(env{"action": "finish", "limit": 120}))

	reconnected := false
	for _, line := range l.log.lines(t, l.scripts)[at:] {
		reconnected = reconnected || strings.Contains(line.text, "Successfully reconnected")
	}
	if !reconnected {
		t.Error("the host never reconnected, so the target was not away")
	}
	l.wantCleanLog(t, at, controllerLost)
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 1000}))
}
