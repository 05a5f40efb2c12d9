package interop

import (
	"testing"
	"time"
)

// TestAttach tests Linux's nvmet → `nvmeof attach` → fio's nbd engine and Linux's nbd driver: verified writes, a file
// system, a second connection.
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
	e["windows"], e["storage"], e["inside"], e["freed"] = "auto", s.storage, "", ""
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	t.Cleanup(func() { l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "stop"})) })
	l.cleanUpAtEnd(t)
	at := l.logEnd(t)
	l.onPeer(t, 4*time.Minute, "attach", e)
	l.wantCleanLog(t, at, nil)
}

// client is the address of our host on a link of its own to our target, in a network namespace of the same guest. There
// is no other RoCE endpoint beside the kernel's rxe.
const client = "10.8.0.2"

// clientLab returns a lab with our target and such a client, the setting, and the parameters of scripts that use both.
func clientLab(t *testing.T) (*lab, setting, env) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() || l.other != nil {
		t.Skip("both ends are ours, over softroce in one guest")
	}
	s := setting{"file", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.startTarget(t, s)
	e := s.env().with(env{"host": client, "inside": "nsenter --net=/run/netns/client"})
	l.onPeer(t, 10*time.Second, "client", e.with(env{"action": "make"}))
	return l, s, e
}

// TestAttachOurTarget is TestAttach with our target. A trim must free blocks of the namespace's file.
func TestAttachOurTarget(t *testing.T) {
	l, _, e := clientLab(t)
	l.onPeer(t, 4*time.Minute, "attach", e.with(env{"provider": "softroce", "windows": "auto", "freed": "target.img"}))
}

// TestAttachFaults loses every packet for 30 s, and kills our target and starts it again, under a verified load through
// attach: the load must see no error and lose nothing.
func TestAttachFaults(t *testing.T) {
	l, s, e := clientLab(t)
	load := func(action string) {
		t.Helper()
		l.onPeer(t, 3*time.Minute, "attachload", e.with(env{"action": action, "seconds": 90, "socket": "/run/load.sock"}))
	}
	client := func(action string) {
		t.Helper()
		l.onPeer(t, 10*time.Second, "client", e.with(env{"action": action}))
	}
	load("start")
	t.Cleanup(func() { load("stop") })
	time.Sleep(3 * time.Second)
	client("cut")
	load("lost")
	time.Sleep(30 * time.Second)
	client("mend")
	load("live")
	l.targetAction(t, s, "kill")
	load("lost")
	l.targetAction(t, s, "revive")
	load("live")
	load("finish")
}
