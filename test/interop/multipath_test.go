package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// pathsEnd is the file that ends the program paths.
const pathsEnd = "/tmp/paths.end"

// startPaths starts a verified load of our host over paths, from an address of its own at the given end.
func (l *lab) startPaths(t *testing.T, at end, options string, paths ...string) {
	t.Helper()
	l.install(t, "./test/interop/paths", "paths")
	command := fmt.Sprintf("rm -f %s; paths -transport %s -nqn %s -until %s %s %s", pathsEnd, l.transport(), targetNQN, pathsEnd, options, strings.Join(paths, " "))
	l.must(t, at, time.Minute, "background", env{"action": "start", "name": "paths", "command": command, "ready": "grep -q running /tmp/paths.out"})
}

// finishPaths ends the load, which must have had no error, and returns its output.
func (l *lab) finishPaths(t *testing.T, at end) string {
	t.Helper()
	l.must(t, at, 10*time.Second, "foreground", env{"command": "touch " + pathsEnd})
	return l.must(t, at, 2*time.Minute, "background", env{"action": "finish", "name": "paths", "limit": 90})
}

// wantPath waits until the program has printed the given state of a path.
func (l *lab) wantPath(t *testing.T, at end, addr, state string) {
	t.Helper()
	l.must(t, at, time.Minute, "pathstate", env{"addr": addr, "state": state, "seconds": 40})
}

// TestMultipath: "Our host over two ports of Linux nvmet-rdma: ANA states change and
// ports come and go under a verified load, without an error."
func TestMultipath(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() {
		t.Skip("the host under test is ours")
	}
	s := setting{"memory", 1500, "ipv4"}
	l.link(t, s.mtu)
	e := s.env()
	e["addr"], e["host"], e["storage"] = s.hostAddr(), s.peerAddr(), s.storage // the kernel serves
	port := func(id int, action string, more env) {
		t.Helper()
		l.onHost(t, 30*time.Second, "nvmetports", e.with(env{"id": id, "action": action}).with(more))
	}
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	t.Cleanup(func() { l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "stop"})) })
	port(2, "add", nil)
	t.Cleanup(func() { port(2, "remove", nil) })
	l.startPaths(t, peerEnd, "-host "+s.peerAddr(), "10.9.0.2:4420", "10.9.0.2:4421")

	for _, state := range []string{"non-optimized", "inaccessible", "persistent-loss", "change"} {
		for id := 1; id <= 2; id++ {
			port(id, "state", env{"state": state})
			time.Sleep(time.Second)
			port(id, "state", env{"state": "optimized"})
		}
	}
	for id := 1; id <= 2; id++ { // for a moment there is no usable path
		port(id, "state", env{"state": "inaccessible"})
	}
	time.Sleep(2 * time.Second)
	for id := 1; id <= 2; id++ {
		port(id, "state", env{"state": "optimized"})
	}
	for id := 1; id <= 2; id++ {
		addr := fmt.Sprintf("10.9.0.2:%d", 4419+id)
		port(id, "unlink", nil)
		l.wantPath(t, peerEnd, addr, "lost")
		time.Sleep(8 * time.Second)
		port(id, "link", nil)
		l.wantPath(t, peerEnd, addr, "live")
	}
	port(2, "remove", nil)
	l.wantPath(t, peerEnd, "10.9.0.2:4421", "lost")
	time.Sleep(5 * time.Second)
	port(2, "add", nil)
	l.wantPath(t, peerEnd, "10.9.0.2:4421", "live")
	out := l.finishPaths(t, peerEnd)
	for _, want := range []string{"10.9.0.2:4420 is live: 1 reconnects", "10.9.0.2:4421 is live: 2 reconnects"} {
		if !strings.Contains(out, want) {
			t.Errorf("the program did not say %q:\n%s", want, out)
		}
	}
}

// TestMultipathRestart: "Our target dies and comes back (kill -9, 5 s, start) under a
// verified load of our host: no error, nothing lost."
func TestMultipathRestart(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() {
		t.Skip("the host under test is ours")
	}
	s := setting{"file", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.onPeer(t, 10*time.Second, "foreground", env{"command": "ip addr replace 10.9.0.3/24 dev peer0"})
	l.startTarget(t, s)
	l.startPaths(t, peerEnd, "-host 10.9.0.3", s.peerAddr()+":4420")
	for range 2 {
		time.Sleep(3 * time.Second)
		l.targetAction(t, s, "kill")
		time.Sleep(5 * time.Second)
		l.targetAction(t, s, "revive")
		l.wantPath(t, peerEnd, s.peerAddr()+":4420", "live")
	}
	if out := l.finishPaths(t, peerEnd); !strings.Contains(out, "is live: 2 reconnects") {
		t.Errorf("the target was not away:\n%s", out)
	}
}

// TestVerbsMultipath: our host on the kernel's rxe, over two addresses of our target. What it sends to one address is
// dropped, then what it sends to the other. The load must see no error and lose nothing.
func TestVerbsMultipath(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerSoftroce)
	l.installWith(t, "verbs", "./cmd/nvmeof", "nvmeof")
	l.installWith(t, "verbs", "./test/interop/paths", "paths")
	s := setting{"memory", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.segmentation(t, "off")
	l.onPeer(t, 10*time.Second, "foreground", env{"command": "ip addr replace 10.9.0.3/24 dev peer0"})
	l.access = "--allow-any-host --listen 10.9.0.3:4420"
	l.startTarget(t, s)
	at := l.logEnd(t)
	l.startPaths(t, hostEnd, "-transport verbs -host "+s.hostAddr(), "10.9.0.1:4420", "10.9.0.3:4420")
	for _, addr := range []string{"10.9.0.1", "10.9.0.3"} {
		time.Sleep(2 * time.Second)
		l.onHost(t, 10*time.Second, "foreground", env{"command": "ip neigh replace " + addr + " lladdr 02:00:00:00:00:99 nud permanent dev host0"})
		l.wantPath(t, hostEnd, addr+":4420", "lost")
		time.Sleep(3 * time.Second)
		l.onHost(t, 10*time.Second, "foreground", env{"command": "ip neigh del " + addr + " dev host0"})
		l.wantPath(t, hostEnd, addr+":4420", "live")
	}
	out := l.finishPaths(t, hostEnd)
	for _, want := range []string{"10.9.0.1:4420 is live: 1 reconnects", "10.9.0.3:4420 is live: 1 reconnects"} {
		if !strings.Contains(out, want) {
			t.Errorf("the program did not say %q:\n%s", want, out)
		}
	}
	t.Log(out)
	l.wantCleanLog(t, at, nil)
}
