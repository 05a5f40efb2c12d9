package interop

import (
	"testing"
	"time"
)

// TestVerbsRemoval: our target uses an rxe device of one guest, the kernel's host is in another. The target starts
// before the device exists. Under fio the device is removed, which must not wait for the target to end, and added
// again. The target must serve again by itself, the host reconnect, and fio end with no error and its data intact.
func TestVerbsRemoval(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerVerbs)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	l.link(t, 1500)
	s := setting{"memory", 1500, "ipv4"}
	e := s.env()
	e["queues"] = 2
	device := func(action string) {
		t.Helper()
		t.Log(l.onPeer(t, 90*time.Second, "verbsremoval", e.with(env{"action": action})))
	}
	device("start")
	t.Cleanup(func() { device("stop") })
	l.cleanUpAtEnd(t)
	at := l.logEnd(t)
	l.onHost(t, time.Minute, "connect", e)
	for range 2 {
		l.onHost(t, 20*time.Second, "load", e.with(env{"action": "start"}))
		time.Sleep(3 * time.Second)
		device("remove")
		time.Sleep(2 * time.Second)
		device("return")
		l.onHost(t, 3*time.Minute, "load", e.with(env{"action": "finish", "limit": 120}))
	}
	l.wantCleanLog(t, at, controllerLost)
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 5000}))
}

// TestVerbsAlone has the tests that need one guest: the addresses of a wildcard listener, also of one added later; an
// address that moves to another interface; receives that queues share; and many connections one after the other.
func TestVerbsAlone(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerSoftroce)
	l.installWith(t, "verbs", "./cmd/nvmeof", "nvmeof")
	l.installWith(t, "verbs", "./test/interop/cycles", "cycles")
	l.link(t, 1500)
	times := 100
	if *whole {
		times = 1000
	}
	for _, name := range []string{"verbswildcard", "verbsmoved", "verbsshared", "verbscycles"} {
		t.Run(name, func(t *testing.T) {
			l.cleanUpAtEnd(t)
			t.Log(l.onHost(t, 9*time.Minute, name, env{"nqn": targetNQN, "times": times}))
		})
	}
}
