package interop

import (
	"flag"
	"strconv"
	"strings"
	"testing"
	"time"
)

var takeovers = flag.Int("takeovers", 12, "how often TestTakeover replaces the target")

// TestTakeover: one target process after another takes over under fio with --verify. The kernel must notice nothing: no
// connection is lost, no command fails or is sent again.
func TestTakeover(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() {
		t.Skip("nobody takes over the kernel's target")
	}
	s := setting{"file", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.startTarget(t, s)
	at := l.logEnd(t)
	e := s.env()
	l.onHost(t, time.Minute, "connect", e)
	l.onHost(t, 20*time.Second, "load", e.with(env{"action": "start", "mib": 24 + *takeovers}))
	p := s.env().with(env{"storage": s.storage, "action": "takeover", "transport": l.transport(), "access": l.access, "times": *takeovers})
	notes := l.onPeer(t, time.Duration(*takeovers+2)*20*time.Second, "target", p)
	l.onHost(t, 11*time.Minute, "load", e.with(env{"action": "finish", "limit": 600}))
	longest, times := 0.0, 0
	for line := range strings.Lines(notes) {
		if _, pause, ok := strings.Cut(strings.TrimSpace(line), "# pause "); ok {
			n, err := strconv.ParseFloat(pause, 64)
			if err != nil {
				t.Error(err)
			}
			longest, times = max(longest, n), times+1
		}
	}
	if times != *takeovers {
		t.Errorf("%d of %d takeovers have a pause: %s", times, *takeovers, notes)
	}
	// The guest is emulated, and gets the machine's processors only when they are free, so this test judges behaviour.
	// The test TestTakeover of cmd/nvmeof bounds how long commands wait.
	t.Logf("%d takeovers, commands waited %.0f ms at most", times, 1000*longest)
	l.wantCleanLog(t, at, nil)
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 1000}))
}
