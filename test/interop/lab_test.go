package interop

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

var (
	boots = flag.Bool("guest", false, "boot the guests; builds their image when missing, which needs root")
	peer  = flag.String("peer", peerSoftroce, "what faces the kernel: nvmeof (over softroce), verbs (nvmeof over verbs), or kernel to prove the checks themselves")
	heads = flag.Bool("heads", false, "record the heads of all packets under load too, to diagnose a failure; slows the guest")
	fresh = flag.Bool("fresh", false, "boot each guest, and start none from a saved state")
	keep  = flag.String("keep", "", "directory in which scripts, logs and captures stay")
)

// Values of -peer.
const (
	peerSoftroce = "nvmeof"
	peerVerbs    = "verbs"
	peerKernel   = "kernel"
)

//go:embed scripts/*.sh
var scripts embed.FS

// needGuest skips a test that boots machines unless the run requests it. Otherwise the test runs in parallel with the
// others, as many as -parallel says: each has guests and files of its own, and a guest keeps about one processor busy.
func needGuest(t *testing.T) {
	t.Helper()
	if !*boots {
		t.Skip("boots virtual machines: go test ./test/interop -guest -v -parallel 2 -timeout 80m")
	}
	t.Parallel()
}

// A lab is one link with the kernel's rxe at one end, "host", and the program under test at the other, "peer". The peer
// is a namespace of the same guest, or a second guest with an rxe of its own.
type lab struct {
	peer    string // the peer, a value of -peer
	dir     string
	host    *guest.Guest
	hostDir string       // shared with host
	other   *guest.Guest // nil: the peer is a namespace of host
	peerDir string       // shared with the guest of the peer

	access  string    // the target's options that allow hosts; empty: any host may connect
	options string    // of the target's export, after a comma
	second  string    // options of the target's second namespace, in a file; empty: there is none
	log     kernelLog // of the host
	peerLog kernelLog // of the peer's guest, if it has one

	peerSeen int // lines of peerLog that were examined

	waitedBefore time.Duration // see waited
	mtu          int           // of the link; 0: not set yet
	scripts      int           // number of scripts that ran at the host's end

	installed map[string]bool       // our programs in the guest
	malformed map[malformedKind]int // what tshark finds in captures of two kernels; nil: not examined yet
}

// places limits how many guests run at a time to the number of processors of a small machine: emulated guests that wait
// for each other miss their deadlines.
type places struct {
	asking sync.Mutex // a test that takes two places gets both before any other gets one
	free   chan struct{}
}

var machine = places{free: make(chan struct{}, 2)}

// take waits for n places, which it keeps until the test ends.
func (p *places) take(t *testing.T, n int) {
	p.asking.Lock()
	defer p.asking.Unlock()
	for range n {
		p.free <- struct{}{}
		t.Cleanup(func() { <-p.free })
	}
}

// newLab boots the guests that -peer selects. Everything ends with the test.
func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabWith(t, *peer)
}

func newLabWith(t *testing.T, peer string) *lab {
	t.Helper()
	if peer != peerSoftroce {
		return newPair(t, peer, guest.Config{CPUs: 2}, guest.Config{CPUs: 4})
	}
	return newSingle(t, peer, guest.Config{CPUs: 4})
}

// newSingle boots one guest.
func newSingle(t *testing.T, peer string, cfg guest.Config) *lab {
	t.Helper()
	machine.take(t, 1)
	l := &lab{peer: peer, dir: artefacts(t), installed: map[string]bool{}}
	l.host = l.boot(t, "guest", cfg)
	l.hostDir = filepath.Join(l.dir, "guest")
	l.peerDir = l.hostDir
	l.log = follow(t, l.host, l.hostDir)
	return l
}

// newPair boots two guests, linked by an Ethernet.
func newPair(t *testing.T, peer string, other, host guest.Config) *lab {
	t.Helper()
	machine.take(t, 2)
	l := &lab{peer: peer, dir: artefacts(t), installed: map[string]bool{}}
	link := filepath.Join(t.TempDir(), "link")
	other.Link, other.Listen, other.MAC = link, true, "52:54:00:00:00:01"
	host.Link, host.MAC = link, "52:54:00:00:00:02"
	l.other, l.host = l.boot(t, "peer", other), l.boot(t, "host", host)
	l.hostDir, l.peerDir = filepath.Join(l.dir, "host"), filepath.Join(l.dir, "peer")
	l.log, l.peerLog = follow(t, l.host, l.hostDir), follow(t, l.other, l.peerDir)
	return l
}

// boot boots one guest, with a directory of the test that has its name.
func (l *lab) boot(t *testing.T, name string, cfg guest.Config) *guest.Guest {
	t.Helper()
	image, err := guest.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	cfg.Share, cfg.Fresh, cfg.Log = filepath.Join(l.dir, name), *fresh, t.Output()
	g, err := guest.Boot(t.Context(), image, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// ours reports whether the peer's end runs our program.
func (l *lab) ours() bool { return l.peer != peerKernel }

// transport returns the transport that our program uses at the peer's end.
func (l *lab) transport() string {
	if l.peer == peerVerbs {
		return "verbs"
	}
	return "softroce"
}

// cleanUpAtEnd ends all connections and programs of both ends if the test has failed, so that the next test can begin.
func (l *lab) cleanUpAtEnd(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			l.cleanUp(t)
		}
	})
}

func (l *lab) cleanUp(t *testing.T) {
	s := script(t, "cleanup", env{"nqn": targetNQN})
	for _, at := range []end{hostEnd, peerEnd} {
		_, _ = l.run(at, 30*time.Second, s) // it fails if there is nothing to clean up
	}
}

// artefacts makes the test's directory, which is kept if the test fails.
func artefacts(t *testing.T) string {
	t.Helper()
	if *keep != "" {
		dir, err := filepath.Abs(filepath.Join(*keep, t.Name()))
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir, err := os.MkdirTemp("", "nvmeof-interop-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("scripts, logs and captures stay in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

// link sets the MTU of both ends.
func (l *lab) link(t *testing.T, mtu int) {
	t.Helper()
	l.mtu = mtu
	if l.other == nil {
		l.onHost(t, time.Minute, "link", env{"role": "both", "mtu": mtu})
		return
	}
	l.onHost(t, time.Minute, "link", env{"role": "host", "mtu": mtu})
	l.onPeer(t, time.Minute, "link", env{"role": "peer", "mtu": mtu})
	l.onHost(t, time.Minute, "reachable", nil)
}

// segmentation sets whether super-packets of the peer pass the link unsegmented (on), or in segments (off), as captures
// and losses need.
func (l *lab) segmentation(t *testing.T, state string) {
	t.Helper()
	if l.other == nil { // rxe sends none
		l.onPeer(t, 10*time.Second, "segmentation", env{"state": state})
	}
}

// An env has a script's parameters.
type env map[string]any

// with returns the parameters of both; those of more take precedence.
func (e env) with(more env) env {
	both := maps.Clone(e)
	maps.Copy(both, more)
	return both
}

// script returns the library, the parameters and one of the files in scripts.
func script(t *testing.T, name string, e env) string {
	t.Helper()
	lib, err := scripts.ReadFile("scripts/lib.sh")
	if err != nil {
		t.Fatal(err)
	}
	body, err := scripts.ReadFile("scripts/" + name + ".sh")
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	s.Write(lib)
	keys := make([]string, 0, len(e))
	for k := range e {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Fprintf(&s, "%s='%s'\n", k, strings.ReplaceAll(fmt.Sprint(e[k]), "'", `'\''`))
	}
	s.Write(body)
	return s.String()
}

// An end is one side of the link.
type end int

const (
	hostEnd end = iota // beside the kernel's rxe
	peerEnd
)

// onHost runs a script at the host's end, onPeer one at the other. A script that fails ends the test.
func (l *lab) onHost(t *testing.T, limit time.Duration, name string, e env) string {
	t.Helper()
	return l.must(t, hostEnd, limit, name, e)
}

func (l *lab) onPeer(t *testing.T, limit time.Duration, name string, e env) string {
	t.Helper()
	return l.must(t, peerEnd, limit, name, e)
}

func (l *lab) must(t *testing.T, at end, limit time.Duration, name string, e env) string {
	t.Helper()
	began := time.Now()
	out, err := l.run(at, limit, script(t, name, e))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Logf("%s: %.1f s%s", name, time.Since(began).Seconds(), notes(out))
	return out
}

// run does not use the test's context, which ends before its cleanups run.
func (l *lab) run(at end, limit time.Duration, s string) (string, error) {
	switch {
	case at == hostEnd:
		return l.host.Run(context.Background(), limit, l.numbered(s))
	case l.other != nil:
		return l.other.Run(context.Background(), limit, s)
	}
	s = "nsenter --net=/run/netns/peer bash <<'END_OF_SCRIPT'\n" + s + "\nEND_OF_SCRIPT\n"
	return l.host.Run(context.Background(), limit, l.numbered(s))
}

// numbered adds the end mark in the kernel's log, which separates what was logged before the script's end.
func (l *lab) numbered(s string) string {
	l.scripts++
	return fmt.Sprintf("trap 'echo \"<6>interop: %d done\" >/dev/kmsg' EXIT\n%s", l.scripts, s)
}

// notes returns the lines of a script's output that start with "# ".
func notes(out string) string {
	var s string
	for line := range strings.Lines(out) {
		if note, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			s += "; " + note
		}
	}
	return s
}
