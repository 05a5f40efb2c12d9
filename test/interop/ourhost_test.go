package interop

import (
	"testing"
	"time"
)

// ourHost: "Our host → Linux nvmet-rdma: discover, connect, 512 B to 1 MiB
// writes and verifies, flush, disconnect; dmesg clean."
func ourHost() suite {
	return suite{
		name: "OurHost", cells: cellsOf(settings("memory"), (*lab).hostAgainstKernel),
		verbs: []string{"memory,mtu=1500,ipv4"},
	}
}

func (l *lab) hostAgainstKernel(t *testing.T, s setting) {
	if l.ours() {
		l.install(t, "./cmd/nvmeof", "nvmeof")
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

// kernelHas are the checks of our host's library that the kernel's target must pass. It supports neither Compare, fused
// commands, Verify nor Copy.
const kernelHas = "durable write;vectored;write zeroes;discard;features;write protection;unknown command;cancel;deadlines;durable write again;"

// ourHostChecks returns the checks of our host; with -peer=kernel, those of Linux's host in its place.
func (l *lab) ourHostChecks() []check {
	if l.ours() {
		return []check{
			{name: "host", script: "ourhost", limit: 3 * time.Minute},
			{name: "library", script: "ourlibrary", limit: 3 * time.Minute, more: env{"has": kernelHas}},
		}
	}
	return []check{
		{name: "discover", script: "discover", limit: 30 * time.Second},
		{name: "connect", script: "connect", limit: time.Minute, more: env{"queues": 2}},
		{name: "commands", script: "commands", limit: time.Minute},
		{name: "fio", script: "fio", limit: 3 * time.Minute, more: env{"blocks": "512-1M", "depth": 8, "jobs": 1, "size": 16}},
		{name: "disconnect", script: "disconnect", limit: 30 * time.Second, more: env{"limit_ms": 5000}},
	}
}
