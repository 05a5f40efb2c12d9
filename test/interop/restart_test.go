package interop

import (
	"strings"
	"testing"
	"time"
)

// restart: "Our target dies and comes back (kill -9, 5 s, start) under fio with --verify: the kernel reconnects by
// itself, fio ends with no error, data intact (file namespace)." Then it is killed, and stopped, under a connection and
// starts again at once: the old process must not leave its port in use.
func restart() suite {
	return suite{
		name: "Restart", cells: []cell{{"file,mtu=1500,ipv4", 1500, (*lab).judgeRestart}},
		verbs: []string{"file,mtu=1500,ipv4"},
	}
}

func (l *lab) judgeRestart(t *testing.T) {
	s := setting{"file", 1500, "ipv4"}
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
	for _, action := range []string{"kill", "stop"} { // neither may leave the port in use
		l.targetAction(t, s, action+"-revive")
		l.onHost(t, time.Minute, "foreground", e.with(env{
			"command": `dd if="$(block_device "$nqn" 1)" of=/dev/null bs=64k count=16 iflag=direct status=none`,
		}))
	}
	l.wantCleanLog(t, at, controllerLost)
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 1000}))
}
