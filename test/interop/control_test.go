package interop

import (
	"testing"
	"time"
)

// TestControl: a target that follows a file is changed by the command line while
// the kernel's host works, and the host sees each change.
func TestControl(t *testing.T) {
	needGuest(t)
	if *peer == "kernel" {
		t.Skip("the changes are commands to our target")
	}
	l := newLab(t)
	e := setting{"memory", 1500, "ipv4"}.env()
	l.link(t, 1500)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	run := func(command string) {
		t.Helper()
		l.onPeer(t, time.Minute, "control", e.with(env{"action": "run", "allow": hostNQN, "command": command}))
	}
	host := func(name string, more env) {
		t.Helper()
		l.onHost(t, 3*time.Minute, name, e.with(more))
	}
	is := func(nsid, mib, ro int) {
		t.Helper()
		host("nsstate", env{"nsid": nsid, "mib": mib, "ro": ro})
	}
	l.onPeer(t, 2*time.Minute, "control", e.with(env{"action": "start", "allow": hostNQN}))
	t.Cleanup(func() {
		l.cleanUp(t)
		l.onPeer(t, time.Minute, "control", e.with(env{"action": "stop", "allow": hostNQN}))
	})
	at := l.logEnd(t)
	host("path", env{"port": 4420, "want": 1})
	host("load", env{"action": "start", "limit": 150})
	run(`nvmeof controller list >list; cat list; grep -q "` + hostNQN + `" list`)
	run("nvmeof namespace add 2 -n $nqn --file /var/tmp/configured.img --size 32MiB --block-size 4096")
	is(2, 32, 0)
	run("nvmeof namespace set 2 -n $nqn --read-only --save")
	is(2, 32, 1)
	run("sed 's/size: 32MiB/size: 48MiB/; s/read-only: true/read-only: false/' /var/tmp/configured.yaml >/var/tmp/configured.more; " +
		"nvmeof target diff /var/tmp/configured.more; nvmeof target apply --dry-run /var/tmp/configured.more; nvmeof target apply /var/tmp/configured.more")
	is(2, 48, 0)
	// What fails half way changes nothing.
	run("sed 's/64MiB/32MiB/; s/configured.img/none/; s/size: 48MiB/buffered: true/' /var/tmp/configured.more >/var/tmp/configured.bad; " +
		"! nvmeof target apply /var/tmp/configured.bad && nvmeof target diff /var/tmp/configured.more")
	is(1, 64, 0)
	is(2, 48, 0)
	run("nvmeof host set " + hostNQN + " -n $nqn --namespace 2=none")
	is(2, 0, 0)
	run("nvmeof host set " + hostNQN + " -n $nqn --namespace 2=read")
	is(2, 48, 1)
	run("nvmeof listener add 2 $addr:4421; nvmeof ana-group set 1 --listener 2 --state non-optimized; nvmeof ls")
	host("path", env{"port": 4421, "want": 2})
	host("anastate", env{"port": 4421, "state": "non-optimized", "nsid": 1})
	run("nvmeof namespace remove 2 -n $nqn")
	is(2, 0, 0)
	host("load", env{"action": "finish", "limit": 150})
	l.wantCleanLog(t, at, away)
}
