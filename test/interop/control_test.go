package interop

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// second4 is another address of the peer.
const second4 = "10.9.0.3"

// TestControl changes a target that follows a file, by the command line, while the kernel's host works. The host must
// see each change.
func TestControl(t *testing.T) {
	needGuest(t)
	if *peer == peerKernel {
		t.Skip("the changes are commands to our target")
	}
	l := newLab(t)
	e := setting{"memory", 1500, "ipv4"}.env().with(env{"transport": l.transport()})
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
	// A change that fails half way changes nothing.
	run("sed 's/64MiB/32MiB/; s/configured.img/none/; s/size: 48MiB/buffered: true/' /var/tmp/configured.more >/var/tmp/configured.bad; " +
		"! nvmeof target apply --force /var/tmp/configured.bad && nvmeof target diff /var/tmp/configured.more")
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
	t.Run("replaced", func(t *testing.T) { l.judgeReplaced(t, e) })
	t.Run("addresses", func(t *testing.T) { l.judgeAddresses(t, e) })
}

// judgeReplaced replaces a namespace by another one again and again while the host writes to it. Nothing that was
// written to one may be in the other's file.
func (l *lab) judgeReplaced(t *testing.T, e env) {
	run := func(command string) {
		t.Helper()
		l.onPeer(t, time.Minute, "control", e.with(env{"action": "run", "allow": hostNQN, "command": command}))
	}
	host := func(action string) {
		t.Helper()
		l.onHost(t, 3*time.Minute, "replaced", e.with(env{"action": action}))
	}
	at := l.logEnd(t)
	run("cd /var/tmp; nvmeof host set " + hostNQN + " -n $nqn --namespace 2=write; nvmeof namespace add 2 -n $nqn --file /var/tmp/configured.a --size 16MiB --uuid aaaaaaaa-0000-4000-8000-000000000000; " +
		"nvmeof target export >configured.isa; sed 's/configured\\.a/configured.b/; s/aaaaaaaa-/bbbbbbbb-/' configured.isa >configured.isb")
	host("start")
	for range 6 {
		run("nvmeof target apply /var/tmp/configured.isb; sleep 2")
		run("nvmeof target apply /var/tmp/configured.isa; sleep 2")
	}
	host("finish")
	for _, c := range []string{"a", "b"} {
		run("size() { tr -d \"$1\" <\"/var/tmp/configured.$2\" | wc -c; }; note \"in the file of " + c + ": $(size '\\0' " + c + ") bytes\"; " +
			"(($(size '\\0' " + c + ") > 0 && $(size '\\0" + c + "' " + c + ") == 0))")
	}
	run("nvmeof namespace remove 2 -n $nqn")
	l.wantCleanLog(t, at, regexp.MustCompile(`(?i)nvme nvme\d|no (usable|available) path|callbacks suppressed|I/O error|Buffer I/O|identifiers changed|operation not supported error`))
}

// judgeAddresses adds a second address to the target. Its path and the first one's are used in turn, by ANA states and
// by a configuration without the first address. A program that writes and verifies meanwhile must see no error. A
// reservation that was acquired over the first path must hold over the second.
func (l *lab) judgeAddresses(t *testing.T, e env) {
	run := func(command string) {
		t.Helper()
		l.onPeer(t, time.Minute, "control", e.with(env{"action": "run", "allow": hostNQN, "command": command}))
	}
	host := func(name string, more env) {
		t.Helper()
		l.onHost(t, 3*time.Minute, name, e.with(more))
	}
	state := func(listener int, name string) {
		t.Helper()
		run(fmt.Sprintf("nvmeof ana-group set 1 --listener %d --state %s", listener, name))
		at := map[int]env{1: {"port": 4420}, 2: {"port": 4421}, 3: {"port": 4420, "addr": second4}}[listener]
		host("anastate", at.with(env{"state": name, "nsid": 1}))
	}
	at := l.logEnd(t)
	host("reserve", env{"action": "acquire"})
	run("ip addr replace " + second4 + "/24 dev peer0; nvmeof listener add 3 " + second4 + "; nvmeof ls")
	host("path", env{"addr": second4, "port": 4420, "want": 3})
	host("discovered", env{"options": "", "has": `.traddr == "` + second4 + `" and .trsvcid == "4420"`, "lacks": `.traddr == "10.9.0.77"`})
	host("load", env{"action": "start", "mib": 28})
	for range 2 {
		state(1, "inaccessible")
		state(2, "inaccessible") // the second address only
		state(1, "optimized")
		state(3, "inaccessible") // the first address only
		state(3, "non-optimized")
	}
	run("nvmeof target export >/var/tmp/both.yaml; nvmeof listener remove 2; nvmeof listener remove 1; nvmeof listener list")
	host("livepaths", env{"want": 1})
	host("reserve", env{"action": "held"})
	run("nvmeof target apply /var/tmp/both.yaml")
	host("livepaths", env{"want": 3})
	run("nvmeof listener remove 3")
	host("livepaths", env{"want": 2})
	host("load", env{"action": "finish", "limit": 150})
	run("nvmeof target apply /var/tmp/both.yaml")
	host("livepaths", env{"want": 3})
	host("reserve", env{"action": "release"})
	l.wantCleanLog(t, at, regexp.MustCompile(`(?i)nvme nvme\d|no usable path - requeuing I/O|callbacks suppressed`))
}
