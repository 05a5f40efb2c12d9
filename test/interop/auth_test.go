package interop

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// An authCase is a hash and a group. Each case has a host NQN of its own, so that one target serves all cases.
type authCase struct {
	hash      auth.Hash
	group     auth.Group
	hostID    string
	key, ctrl auth.Key
	dir       string // directory of the key files, as the guest sees it
}

func (c *authCase) name() string    { return fmt.Sprintf("%v-%v", c.hash, c.group) }
func (c *authCase) hostNQN() string { return "nqn.2014-08.org.nvmexpress:uuid:" + c.hostID }

// env returns the parameters of scripts on the host.
func (c *authCase) env(e env) env {
	return e.with(env{
		"hostnqn": c.hostNQN(), "hostid": c.hostID, "hash": c.hash, "group": c.group,
		"secret": c.key.Text(), "ctrl_secret": c.ctrl.Text(),
	})
}

// option returns the target's option that allows the host.
func (c *authCase) option() string {
	return fmt.Sprintf("--allow-host %s,dhchap-key-file=%[2]s/%[3]s.key,dhchap-ctrl-key-file=%[2]s/%[3]s.ctrl,dhchap-hash=%[4]v,dhchap-dhgroup=%[5]v",
		c.hostNQN(), c.dir, c.name(), c.hash, c.group)
}

// write writes the keys to the files that the target reads.
func (c *authCase) write(t *testing.T, l *lab) {
	t.Helper()
	for ending, key := range map[string]auth.Key{".key": c.key, ".ctrl": c.ctrl} {
		name := filepath.Join(l.peerDir, "keys", c.name()+ending)
		if err := os.WriteFile(name, []byte(key.Text()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func newKey(t *testing.T, h auth.Hash) auth.Key {
	t.Helper()
	k, err := auth.GenerateKey(h, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// authCases returns a case for each hash and group, with keys of every kind among them.
func authCases(t *testing.T) (cases []*authCase) {
	for i := range 18 {
		c := &authCase{
			hash: auth.Hash(1 + i/6), group: auth.Group(i % 6), dir: "/mnt/host/keys",
			hostID: fmt.Sprintf("00000000-0000-4000-8000-0000000000%02x", i),
		}
		c.key, c.ctrl = newKey(t, auth.Hash(i%4)), newKey(t, auth.Hash((i+1)%4))
		cases = append(cases, c)
	}
	return cases
}

// needOneGuest skips tests in which one script sets up the kernel's target and runs our host.
func needOneGuest(t *testing.T) {
	t.Helper()
	if *peer != peerSoftroce {
		t.Skip("one script changes nvmet and has our host follow: both are in one guest, so without -peer")
	}
}

// needOurs skips tests that mean nothing if nvmet replaces our program.
func needOurs(t *testing.T) {
	t.Helper()
	if *peer == peerKernel {
		t.Skip("nvmet has one hash and group for all hosts, and no key files")
	}
}

// authTrouble matches what the host logs when authentication fails, as some tests want.
var authTrouble = regexp.MustCompile(`auth|rdma connection establishment failed|Connect (command|rejected|Failure)|failed to connect queue|` +
	controllerLost.String())

// TestAuthLinuxHost: the kernel's host and our target authenticate each other with every hash and group. Whichever side
// detects a wrong key refuses the other. Keys change while the host is connected. A host that reconnects authenticates
// again.
func TestAuthLinuxHost(t *testing.T) {
	needGuest(t)
	needOurs(t)
	l := newLab(t)
	cases := authCases(t)
	if err := os.MkdirAll(filepath.Join(l.peerDir, "keys"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		c.write(t, l)
		l.access += " " + c.option()
	}
	s := setting{"file", 1500, "ipv4"} // the namespace must be the same after a restart
	l.link(t, s.mtu)
	l.startTarget(t, s)
	at := l.logEnd(t)
	for _, c := range cases {
		t.Run(c.name(), func(t *testing.T) {
			e := c.env(s.env())
			l.onHost(t, time.Minute, "authconnect", e.with(env{"ctrl_secret": ""}))
			l.onHost(t, time.Minute, "authconnect", e)
		})
	}
	at = l.wantCleanLog(t, at, cancelledKeepAlive) // the host disconnects
	l.alsoAtHost(t, "nvmeof")
	t.Run("keys", func(t *testing.T) { l.onHost(t, time.Minute, "genkeys", env{"hostnqn": cases[0].hostNQN()}) })
	t.Run("refused", func(t *testing.T) { l.wrongKeys(t, s, cases[7]) })
	t.Run("again", func(t *testing.T) { l.authAgain(t, s, cases[2]) })
	l.wantCleanLog(t, at, authTrouble)
}

// wrongKeys checks that a host without the key is refused, and that the target's log says why.
func (l *lab) wrongKeys(t *testing.T, s setting, c *authCase) {
	wrong := newKey(t, auth.HashSHA256).Text()
	for _, w := range []struct {
		name string
		more env
		log  string // of the target; empty: nothing is logged
	}{
		{"host's", env{"secret": wrong, "ctrl_secret": ""}, "host does not know its key"},
		{"controller's", env{"ctrl_secret": wrong}, "the host expects a different controller key"},
		{"none", env{"secret": "", "ctrl_secret": ""}, ""},
	} {
		t.Run(w.name, func(t *testing.T) {
			before := len(l.wholeTargetLog(t))
			l.onHost(t, time.Minute, "authrefused", c.env(s.env()).with(w.more))
			if log := l.wholeTargetLog(t)[before:]; strings.Count(log, "authentication failed") > 0 != (w.log != "") || !strings.Contains(log, w.log) {
				t.Errorf("the target logged\n%swant %q", log, w.log)
			}
		})
	}
	if log := l.wholeTargetLog(t); strings.Contains(log, wrong) || strings.Contains(log, c.key.Text()) {
		t.Error("the target's log has a key")
	}
}

func (l *lab) wholeTargetLog(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(l.peerDir, "target.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// authAgain changes the keys of a connected host, resets it, and kills and restarts the target.
func (l *lab) authAgain(t *testing.T, s setting, c *authCase) {
	step := func(action string) {
		t.Helper()
		l.onHost(t, time.Minute, "authagain", c.env(s.env()).with(env{"action": action}))
	}
	step("connect")
	reread := 0
	change := func(action string) {
		t.Helper()
		c.write(t, l)
		reread++
		l.onPeer(t, 10*time.Second, "foreground", env{"command": "kill -HUP $(</run/target.pid)"})
		l.untilReread(t, reread)
		step(action)
	}
	// One key at a time, since Linux authenticates again as soon as one is set.
	c.key = newKey(t, auth.HashSHA512)
	change("key")
	c.ctrl = newKey(t, auth.HashNone)
	change("ctrl_key")
	step("reset")
	l.targetAction(t, s, "kill")
	l.targetAction(t, s, "revive")
	step("back")
	step("disconnect")
}

// untilReread waits until the target has reread its keys the given number of times.
func (l *lab) untilReread(t *testing.T, times int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); strings.Count(l.wholeTargetLog(t), "keys were read again") < times; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the target did not read its keys again %d times", times)
		}
	}
}

// TestAuthOurHost: our host and the kernel's target authenticate each other with every hash and group, and refuse wrong
// keys.
func TestAuthOurHost(t *testing.T) {
	needGuest(t)
	needOneGuest(t)
	l := newLab(t)
	s := setting{"memory", 1500, "ipv4"}
	l.link(t, s.mtu)
	l.install(t, "./cmd/nvmeof", "nvmeof")
	e := s.env()
	e["addr"], e["host"] = s.hostAddr(), s.peerAddr() // the kernel serves
	serve := func(action string) {
		l.onHost(t, time.Minute, "nvmet", e.with(env{"storage": "memory", "action": action}))
	}
	serve("start")
	t.Cleanup(func() {
		l.onHost(t, 30*time.Second, "authnvmetstop", e)
		serve("stop")
	})
	at := l.logEnd(t)
	for i, c := range authCases(t) {
		t.Run(c.name(), func(t *testing.T) {
			wrong := ""
			if i == 1 || i == 12 { // with a group and without
				wrong = newKey(t, auth.HashSHA256).Text()
			}
			l.onPeer(t, 2*time.Minute, "authnvmet", c.env(e).with(env{"wrong": wrong}))
		})
	}
	l.wantCleanLog(t, at, regexp.MustCompile(`nvmet: .*(auth|failure1|host response mismatch|controller \d|ctrl \d)`))
}
