package interop

import (
	"testing"
	"time"
)

// TestAttach: Linux's nvmet → `nvmeof attach` → fio's nbd engine and Linux's nbd
// driver: verified writes, a file system, a second connection.
func TestAttach(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() {
		t.Skip("attach is a command of ours")
	}
	l.link(t, 1500)
	s := setting{"memory", 1500, "ipv4"}
	l.install(t, "./cmd/nvmeof", "nvmeof")
	e := s.env()
	e["addr"], e["host"], e["provider"] = s.hostAddr(), s.peerAddr(), l.transport() // the kernel serves
	e["windows"], e["storage"] = "auto", s.storage
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	t.Cleanup(func() { l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "stop"})) })
	l.cleanUpAtEnd(t)
	at := l.logEnd(t)
	l.onPeer(t, 4*time.Minute, "attach", e)
	l.wantCleanLog(t, at, nil)
}
