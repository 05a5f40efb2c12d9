package interop

import (
	"regexp"
	"testing"
	"time"
)

// taken matches what the kernel logs when it writes to a namespace that was taken from it: it retries an aborted write,
// and has no path once the namespace is removed.
var taken = regexp.MustCompile(`rescanning namespaces|error, dev nvme|I/O Cmd|no available path - failing I/O`)

// TestCSI attaches and removes volumes of the CSI driver, on our target, through the kernel's initiator: with ext4 and
// xfs, which are expanded in use, and as block devices. One of the latter is fenced during writes, and the driver is
// killed before it is told to unstage its volumes.
func TestCSI(t *testing.T) {
	l, e := csiLab(t)
	at := l.logEnd(t)
	l.onPeer(t, time.Minute, "csi", e.with(env{"action": "target"}))
	l.onHost(t, time.Minute, "csi", e.with(env{"action": "driver"}))
	t.Log(l.onHost(t, 6*time.Minute, "foreground", env{"command": "csi -socket /run/csi.sock -files /srv/csi -driver /run/csi.pid"}))
	l.onHost(t, time.Minute, "csi", e.with(env{"action": "finish"}))
	l.wantCleanLog(t, at, taken)
}

// csiLab returns a lab with the programs, and the parameters of the script.
func csiLab(t *testing.T) (*lab, env) {
	needGuest(t)
	l := newLab(t)
	if !l.ours() || l.other != nil {
		t.Skip("the target is ours, over softroce in the same guest")
	}
	l.link(t, 1500)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	l.install(t, "./cmd/nvmeof-csi", "nvmeof-csi")
	l.install(t, "./test/interop/csi", "csi")
	e := env{"addr": setting{"file", 1500, "ipv4"}.peerAddr(), "nqn": targetNQN, "inside": "", "options": ""}
	return l, e
}

// TestCSIAttach is TestCSI by nvmeof attach and the kernel's NBD driver, on a link of its own.
func TestCSIAttach(t *testing.T) {
	l, e := csiLab(t)
	e = e.with(env{"host": client, "inside": "nsenter --net=/run/netns/client", "options": "--attach"})
	l.onPeer(t, 10*time.Second, "client", e.with(env{"action": "make"}))
	l.onPeer(t, time.Minute, "csi", e.with(env{"action": "target"}))
	l.onHost(t, time.Minute, "csi", e.with(env{"action": "driver"}))
	t.Log(l.onHost(t, 6*time.Minute, "foreground", env{"command": "csi -offline -socket /run/csi.sock -files /srv/csi -driver /run/csi.pid"}))
	l.onHost(t, time.Minute, "csi", e.with(env{"action": "finish"}))
}
