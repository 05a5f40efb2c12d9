package interop

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// hostNQN is the NQN of lib.sh.
const hostNQN = "nqn.2014-08.org.nvmexpress:uuid:6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01"

// A live is a target that is changed while the kernel's host is connected.
type live struct {
	*lab
	e env
}

func startLive(t *testing.T) *live {
	needGuest(t)
	if *peer == peerKernel {
		t.Skip("the changes are commands to our target")
	}
	l := &live{lab: newLab(t), e: setting{"memory", 1500, "ipv4"}.env()}
	l.e["transport"] = l.transport()
	l.link(t, 1500)
	l.install(t, "./test/interop/live", "live")
	l.onPeer(t, time.Minute, "live", l.e.with(env{"action": "start"}))
	t.Cleanup(func() {
		l.cleanUp(t)
		l.onPeer(t, time.Minute, "live", l.e.with(env{"action": "stop"}))
	})
	l.do(t, "listener add 4420", "listener add 4421", "host allow "+hostNQN, "namespace add 1 64")
	return l
}

// do makes changes.
func (l *live) do(t *testing.T, changes ...string) {
	t.Helper()
	for _, c := range changes {
		l.onPeer(t, time.Minute, "live", l.e.with(env{"action": "change", "command": c}))
	}
}

// host runs a script at the host's end.
func (l *live) host(t *testing.T, name string, e env) {
	t.Helper()
	l.onHost(t, 3*time.Minute, name, l.e.with(e))
}

func (l *live) connect(t *testing.T, port, paths int) {
	t.Helper()
	l.host(t, "path", env{"port": port, "want": paths})
}

// TestLiveChanges: "ANA failover under fio over two listeners with no error; hot
// add/remove/resize under fio"; masking, hosts that are removed and come back,
// persistent discovery and referrals.
func TestLiveChanges(t *testing.T) {
	l := startLive(t)
	// The host logs that a controller is refused or lost.
	lost := regexp.MustCompile(`(?i)nvme nvme\d`)
	for _, c := range []struct {
		name    string
		run     func(*testing.T)
		allowed *regexp.Regexp
	}{
		{"discovery", l.judgeDiscovery, away},
		{"failover", l.judgeFailover, away},
		{"hot", l.judgeHotChanges, away},
		{"pause", l.judgePause, away},
		{"mask", l.judgeMasking, away},
		{"listener", l.judgeListener, lost},
		{"host", l.judgeHost, lost},
	} {
		at := l.logEnd(t)
		if !t.Run(c.name, c.run) {
			break
		}
		l.wantCleanLog(t, at, c.allowed)
	}
}

func (l *live) judgeDiscovery(t *testing.T) {
	seen := func(options, has, lacks string) {
		t.Helper()
		l.host(t, "discovered", env{"options": options, "has": has, "lacks": lacks})
	}
	const second = `.subnqn == "nqn.2026-01.org.example:second"`
	const referral = `.subtype == "discovery subsystem referral" and .traddr == "10.9.0.77"`
	provider := "roce-v2"
	if l.transport() == "verbs" {
		provider = "not specified" // the device decides
	}
	ours := fmt.Sprintf(`.subnqn == "%s" and .trsvcid == "%%d" and .rdma_prtype == "%s"`, targetNQN, provider)
	seen("", fmt.Sprintf(ours, 4420), second)
	seen("", fmt.Sprintf(ours, 4421), referral)
	persistent := func(action string) { l.host(t, "persistent", env{"action": action}) }
	persistent("start")
	l.do(t, "subsystem add nqn.2026-01.org.example:second")
	persistent("told")
	seen("-p", second, referral) // by the controller that is connected
	l.do(t, "referral add 10.9.0.77:4420")
	persistent("told")
	seen("-p", referral, "")
	l.do(t, "referral remove 10.9.0.77:4420", "subsystem remove nqn.2026-01.org.example:second")
	persistent("told")
	seen("-p", fmt.Sprintf(ours, 4420), second)
	persistent("stop")
}

func (l *live) load(t *testing.T, action string) {
	t.Helper()
	l.host(t, "load", env{"action": action, "limit": 150})
}

// judgeFailover moves the load from path to path and back, through each state.
func (l *live) judgeFailover(t *testing.T) {
	state := func(port int, name string) {
		t.Helper()
		l.do(t, fmt.Sprintf("ana %d 1 %s", port-4419, name))
		l.host(t, "anastate", env{"port": port, "state": name, "nsid": 1})
	}
	l.connect(t, 4420, 1)
	l.do(t, "ana 2 1 inaccessible")
	l.connect(t, 4421, 2)
	l.host(t, "anastate", env{"port": 4421, "state": "inaccessible", "nsid": 1})
	l.load(t, "start")
	for _, gone := range []string{"inaccessible", "persistent-loss", "change"} {
		state(4421, "non-optimized")
		state(4420, gone)
		state(4421, "optimized")
		state(4420, "optimized")
		state(4421, "inaccessible")
	}
	l.load(t, "finish")
	state(4421, "optimized")
}

// judgeHotChanges changes other namespaces, and the end of the loaded one, while fio runs.
func (l *live) judgeHotChanges(t *testing.T) {
	is := func(nsid, mib, ro int) {
		t.Helper()
		l.host(t, "nsstate", env{"nsid": nsid, "mib": mib, "ro": ro})
	}
	l.load(t, "start")
	l.do(t, "namespace add 2 32")
	is(2, 32, 0)
	l.do(t, "namespace resize 2 48")
	is(2, 48, 0)
	l.do(t, "namespace readonly 2 on")
	is(2, 48, 1)
	l.do(t, "namespace readonly 2 off")
	is(2, 48, 0)
	l.do(t, "namespace remove 2")
	is(2, 0, 0)
	l.do(t, "namespace resize 1 96")
	is(1, 96, 0)
	l.load(t, "finish")
	l.do(t, "namespace resize 1 64")
	is(1, 64, 0)
}

func (l *live) judgePause(t *testing.T) {
	l.load(t, "start")
	for range 3 {
		l.do(t, "namespace pause 1")
		time.Sleep(2 * time.Second)
		l.do(t, "namespace resume 1")
	}
	l.load(t, "finish")
}

func (l *live) judgeMasking(t *testing.T) {
	is := func(nsid, mib, ro int) {
		t.Helper()
		l.host(t, "nsstate", env{"nsid": nsid, "mib": mib, "ro": ro})
	}
	access := func(a string) { l.do(t, "host access "+hostNQN+" 2 "+a) }
	access("none")
	l.do(t, "namespace add 2 32", "namespace add 3 32")
	is(3, 32, 0)
	is(2, 0, 0)
	access("read")
	is(2, 32, 1)
	access("write")
	is(2, 32, 0)
	access("none")
	is(2, 0, 0)
	is(3, 32, 0)
}

// judgeListener removes the listener of one of two paths under load.
func (l *live) judgeListener(t *testing.T) {
	l.load(t, "start")
	l.do(t, "listener remove 2")
	l.load(t, "finish")
}

// judgeHost removes the host, which loses its controller for good. Once it is allowed again it can connect.
func (l *live) judgeHost(t *testing.T) {
	// A controller of earlier tests still tries to reach the removed listener.
	l.host(t, "foreground", env{"command": "nvme disconnect -n " + targetNQN})
	l.connect(t, 4420, 1)
	l.do(t, "host remove "+hostNQN)
	l.host(t, "evicted", nil)
	l.host(t, "foreground", env{"command": "if nvme connect -q $NVME_HOSTNQN -I $hostid -t rdma -a " + fmt.Sprint(l.e["addr"]) +
		" -s 4420 -n " + targetNQN + " -i 2; then die 'a host that is not allowed connects'; fi"})
	l.do(t, "host allow "+hostNQN)
	l.connect(t, 4420, 1)
}
