package interop

import (
	"testing"
	"time"
)

// TestCommands sends every command of the NVM command set other than reads and writes, as nvme-cli sends it, and runs
// fio with verification, on namespaces with blocks of 512 and of 4096 bytes. It also tests reservations between two
// hosts of one guest, across the death of the target.
func TestCommands(t *testing.T) {
	needGuest(t)
	if *peer == peerKernel {
		t.Skip("nvmet of Linux 6.12 has neither these commands nor reservations")
	}
	l := newLab(t)
	l.link(t, 9000)
	for _, c := range []struct{ name, storage, options, block string }{
		{"memory, 512", "memory", ",bs=512", "512"},
		{"file, 4096", "file", ",bs=4096", "4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := setting{c.storage, 9000, "ipv4"}
			l.options = c.options
			l.startTarget(t, s)
			at := l.logEnd(t)
			e := s.env().with(env{"block": c.block})
			l.onHost(t, time.Minute, "connect", e)
			l.onHost(t, 2*time.Minute, "nvm", e)
			l.onHost(t, 3*time.Minute, "fio", e.with(env{"blocks": "4k-256k", "depth": 16, "jobs": 1, "size": 16}))
			l.wantCleanLog(t, at, nil)
			l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 1000}))
		})
	}
	t.Run("reservations", func(t *testing.T) {
		s := setting{"file", 9000, "ipv4"}
		l.options = ",resv=/run/reservation"
		l.startTarget(t, s)
		l.onHost(t, 2*time.Minute, "reservations", s.env().with(env{"step": "before"}))
		l.targetAction(t, s, "kill")
		l.targetAction(t, s, "revive")
		l.onHost(t, 2*time.Minute, "reservations", s.env().with(env{"step": "after"}))
	})
}
