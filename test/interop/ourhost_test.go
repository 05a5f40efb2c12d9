package interop

import (
	"fmt"
	"testing"
	"time"
)

// TestOurHost: "Our host → Linux nvmet-rdma: discover, connect, 512 B to 1 MiB
// writes and verifies, flush, disconnect; dmesg clean."
func TestOurHost(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	for _, mtu := range []int{1500, 9000} {
		l.link(t, mtu)
		for _, family := range []string{"ipv4", "ipv6"} {
			t.Run(fmt.Sprintf("mtu=%d,%s", mtu, family), func(t *testing.T) { l.hostAgainstKernel(t, setting{"memory", mtu, family}) })
		}
	}
}

func (l *lab) hostAgainstKernel(t *testing.T, s setting) {
	if l.ours() {
		l.install(t, "./cmd/nvmeof", "nvmeof")
	}
	if l.other == nil {
		l.install(t, "./test/interop/library", "library")
	}
	e := s.env()
	e["addr"], e["host"], e["provider"] = s.hostAddr(), s.peerAddr(), l.transport() // the kernel serves
	e["windows"] = "auto"
	serve := func(action string) {
		t.Helper()
		e["storage"], e["action"] = s.storage, action
		l.onHost(t, time.Minute, "nvmet", e)
	}
	serve("start")
	t.Cleanup(func() { serve("stop") })
	l.cleanUpAtEnd(t)
	at := l.logEnd(t)
	for _, c := range l.ourHostChecks() {
		if !t.Run(c.name, func(t *testing.T) { l.onPeer(t, c.limit, c.script, e.with(c.more)) }) {
			break
		}
	}
	l.wantCleanLog(t, at, nil)
}

// kernelHas are the checks of our host's library that the kernel's target must pass. It
// has neither Compare, fused commands, Verify nor Copy.
const kernelHas = "durable write;vectored;write zeroes;discard;features;write protection;unknown command;cancel;deadlines;durable write again;"

// ourHostChecks are what our host must do; with -peer=kernel, what Linux does in
// its place.
func (l *lab) ourHostChecks() []check {
	switch {
	case l.other == nil:
		return []check{
			{name: "host", script: "ourhost", limit: 3 * time.Minute},
			{name: "library", script: "ourlibrary", limit: 3 * time.Minute, more: env{"has": kernelHas}},
		}
	case l.ours():
		return []check{{name: "host", script: "ourhost", limit: 3 * time.Minute}}
	}
	return []check{
		{name: "discover", script: "discover", limit: 30 * time.Second},
		{name: "connect", script: "connect", limit: time.Minute, more: env{"queues": 2}},
		{name: "commands", script: "commands", limit: time.Minute},
		{name: "fio", script: "fio", limit: 3 * time.Minute, more: env{"blocks": "512-1M", "depth": 8, "jobs": 1, "size": 16}},
		{name: "disconnect", script: "disconnect", limit: 30 * time.Second, more: env{"limit_ms": 5000}},
	}
}
