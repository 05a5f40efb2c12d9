package interop

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// longestWrite matches fio's latency of the slowest write.
var longestWrite = regexp.MustCompile(`clat \((\w)sec\): min=[^,]*, max= *([0-9.]+)(k?)`)

// noPathNow matches what the kernel logs of commands that it requeues while the group moves.
var noPathNow = regexp.MustCompile(`no usable path - requeuing I/O|nvme_ns_head_submit_bio: \d+ callbacks suppressed`)

// TestGateways: two processes of ours serve one file from one document. Its ANA group moves between them, ten times,
// under fio with --verify on the kernel's multipath device. fio must see no error, and no command may wait long.
func TestGateways(t *testing.T) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() || l.other != nil {
		t.Skip("both targets are ours, at addresses of one machine")
	}
	s := setting{"file", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.onPeer(t, 10*time.Second, "foreground", env{"command": "ip addr replace 10.9.0.3/24 dev peer0"})
	l.install(t, "./test/interop/gateways", "gateways")
	const moves, file, begin, until = 10, "/var/tmp/shared.img", "/tmp/gateways.go", "/tmp/gateways.end"
	command := fmt.Sprintf("rm -f %s %s; truncate -s 64M %s; gateways -nqn %s -file %s -go %s -until %s -moves %d 10.9.0.1 10.9.0.3",
		begin, until, file, targetNQN, file, begin, until, moves)
	l.onPeer(t, time.Minute, "background", env{"action": "start", "name": "gateways", "command": command, "ready": "grep -q running /tmp/gateways.out"})
	at := l.logEnd(t)
	e := s.env()
	l.onHost(t, time.Minute, "path", e.with(env{"port": 4420, "want": 1}))
	l.onHost(t, time.Minute, "path", e.with(env{"port": 4420, "want": 2, "addr": "10.9.0.3"}))
	for addr, state := range map[string]string{"10.9.0.1": "optimized", "10.9.0.3": "inaccessible"} {
		l.onHost(t, 30*time.Second, "anastate", e.with(env{"addr": addr, "port": 4420, "state": state, "nsid": 1}))
	}
	l.onHost(t, 20*time.Second, "load", e.with(env{"action": "start", "mib": 32}))
	l.onPeer(t, 10*time.Second, "foreground", env{"command": "touch " + begin})
	load := l.onHost(t, 11*time.Minute, "load", e.with(env{"action": "finish", "limit": 600}))
	l.wantCleanLog(t, at, noPathNow)
	l.onHost(t, 30*time.Second, "disconnect", e.with(env{"limit_ms": 5000}))
	l.onPeer(t, 10*time.Second, "foreground", env{"command": "touch " + until})
	out := l.onPeer(t, 2*time.Minute, "background", env{"action": "finish", "name": "gateways", "limit": 90})
	if !regexp.MustCompile(fmt.Sprintf(`# %d moves, the longest of`, moves)).MatchString(out) {
		t.Errorf("it did not say that the group has moved:\n%s", out)
	}
	// The guest is emulated, so the limit is loose: a command that exceeds it waited for a path that the host gave up.
	if stall := slowest(t, load); stall > 5*time.Second {
		t.Errorf("a command took %v", stall)
	} else {
		t.Logf("the slowest command took %v\n%s", stall, out)
	}
}

// slowest returns the latency of the slowest command that fio has seen.
func slowest(t *testing.T, out string) (longest time.Duration) {
	t.Helper()
	units := map[string]time.Duration{"n": time.Nanosecond, "u": time.Microsecond, "m": time.Millisecond}
	for _, m := range longestWrite.FindAllStringSubmatch(out, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if m[3] == "k" {
			n *= 1000
		}
		longest = max(longest, time.Duration(n*float64(units[m[1]])))
	}
	if longest == 0 {
		t.Errorf("fio does not say how long writes took:\n%s", out)
	}
	return longest
}
