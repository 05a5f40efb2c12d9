package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	targetNQN  = "nqn.2026-01.org.example:interop"
	targetSize = 256 << 20 // bytes of each namespace
)

// A setting is one combination in which a target is tested.
type setting struct {
	storage string // memory or file
	mtu     int
	family  string // ipv4 or ipv6
}

func (s setting) peerAddr() string {
	if s.family == "ipv6" {
		return "fd09::1"
	}
	return "10.9.0.1"
}

func (s setting) hostAddr() string {
	if s.family == "ipv6" {
		return "fd09::2"
	}
	return "10.9.0.2"
}

// env returns the parameters of scripts on the host.
func (s setting) env() env {
	pastEnd := `\(0x4080\)` // LBA Out of Range, do not retry
	if *peer == peerKernel {
		pastEnd = `\(0x6006\)` // the status that nvmet returns for null_blk
	}
	return env{"past_end": pastEnd, "nqn": targetNQN, "addr": s.peerAddr(), "host": s.hostAddr(), "family": s.family,
		"bytes": targetSize, "queues": 4}
}

// startTarget starts a target with one namespace at the peer, which runs until the test ends.
func (l *lab) startTarget(t *testing.T, s setting) {
	t.Helper()
	l.targetAction(t, s, "start")
	t.Cleanup(func() {
		l.targetAction(t, s, "stop")
		if t.Failed() {
			t.Logf("what the target logged:\n%s", l.targetLog())
		}
	})
	l.cleanUpAtEnd(t) // runs before the target is stopped
}

// targetLog returns the end of the target's log, with its counters if it has stopped.
func (l *lab) targetLog() string {
	b, err := os.ReadFile(filepath.Join(l.peerDir, "target.log"))
	if err != nil {
		return err.Error() // nvmet has no log file
	}
	return string(b[max(0, len(b)-6000):])
}

// targetAction runs an action: start, stop, kill, revive, kill-revive or stop-revive.
func (l *lab) targetAction(t *testing.T, s setting, action string) {
	t.Helper()
	e := s.env()
	e["storage"], e["action"], e["transport"], e["access"] = s.storage, action, l.transport(), l.access
	e["options"], e["second"] = l.options, l.second
	program := "nvmet"
	if l.ours() {
		program = "target"
		if action == "start" {
			l.install(t, "./cmd/nvmeof", "nvmeof")
		}
	}
	l.onPeer(t, 90*time.Second, program, e)
}

// install builds a program of this module and puts it below /usr/local/bin at the peer's end. It is static, or has the
// verbs transport if the peer's end uses that.
func (l *lab) install(t *testing.T, pkg, name string) {
	t.Helper()
	l.installWith(t, l.transport(), pkg, name)
}

func (l *lab) installWith(t *testing.T, transport, pkg, name string) {
	t.Helper()
	if l.installed[name] {
		return
	}
	cgo, tags := "0", ""
	if transport == "verbs" {
		cgo, tags = "1", "verbs"
	}
	build := exec.Command("go", "build", "-C", "../..", "-tags", tags, "-ldflags=-s -w", "-o", filepath.Join(l.peerDir, name), pkg) // -s -w: a third less to copy
	build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags '%s' %s: %v\n%s(verbs needs gcc, libibverbs-dev and librdmacm-dev)", tags, pkg, err, out)
	}
	at := peerEnd
	if l.other == nil {
		at = hostEnd // the same file system, which exists from the start
	}
	l.must(t, at, time.Minute, "foreground", env{"command": "cp /mnt/host/" + name + " /usr/local/bin/"})
	l.installed[name] = true
}

// alsoAtHost also puts a program that was installed at the peer's end at the host's end.
func (l *lab) alsoAtHost(t *testing.T, name string) {
	t.Helper()
	if l.other == nil {
		return // the same file system
	}
	program, err := os.ReadFile(filepath.Join(l.peerDir, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(l.hostDir, name), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.onHost(t, time.Minute, "foreground", env{"command": "cp /mnt/host/" + name + " /usr/local/bin/"})
}
