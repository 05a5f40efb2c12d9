package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A tmux is a terminal of 80 x 24 in which a command runs.
type tmux struct {
	t      *testing.T
	socket string
}

// startTmux runs the program on a terminal without colours.
func startTmux(t *testing.T, args ...string) *tmux {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	x := &tmux{t, filepath.Join(dir, "t")}
	cmd := program(t.Context(), t, args...)
	line := []string{"-f", os.DevNull, "new-session", "-d", "-x", "80", "-y", "24", "-e", "NO_COLOR=1"}
	for _, v := range cmd.Env {
		line = append(line, "-e", v)
	}
	line = append(line, "sh", "-c", `"$@"; echo "ended with $?"; exec sleep 600`, "sh", cmd.Path)
	t.Cleanup(func() {
		_, _ = x.run("kill-server")
		os.RemoveAll(dir)
	})
	if out, err := x.run(slices.Concat(line, args)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return x
}

func (x *tmux) run(args ...string) (string, error) {
	out, err := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...).CombinedOutput()
	return string(out), err
}

// press presses keys, by tmux's names.
func (x *tmux) press(keys ...string) {
	x.t.Helper()
	if out, err := x.run(append([]string{"send-keys"}, keys...)...); err != nil {
		x.t.Fatalf("%v: %s", err, out)
	}
}

// await waits until the terminal shows all texts, and returns its content with attributes.
func (x *tmux) await(texts ...string) string {
	x.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) { // each look starts a process
		plain, err := x.run("capture-pane", "-p")
		if err == nil && !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(plain, s) }) {
			shown, _ := x.run("capture-pane", "-p", "-e")
			return shown
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("%v: no %q in\n%s", err, texts, plain)
		}
	}
}

// TestTopScreen uses top on a terminal, while the target goes and returns.
func TestTopScreen(t *testing.T) {
	haveTool(t, "tmux")
	beside(t)
	s, socket := startBusy(t)
	x := startTmux(t, "top", "--socket", socket)
	x.await("nvmeof top  "+socket[:10], "/1 ", " 1 namespaces  2 hosts  3 controllers  4 shards  5 transport", "ST-P99  ERR", "1-1 of 1 by IOPS          1-5 view  <> sort")
	x.press("2")
	x.await("HOST  ", "QUEUES", "1-1 of 1 by IOPS")
	x.press("5", "/", "n", "a", "k", "s")
	x.await("sequence_naks_in", "filter: naks_")
	x.press("Enter", "r", "?")
	x.await("Any key leaves this.")
	x.press("x", "1", "<")
	x.await(`by NAMESPACE, with "naks"`)
	x.press("Escape")
	x.await("1-1 of 1 by NAMESPACE")
	s.end(t)
	if shown := x.await("no answer since ", "/1 "); strings.Contains(shown, "\x1b[31m") || strings.Contains(shown, "\x1b[1;31m") {
		t.Errorf("colours, which NO_COLOR is against:\n%q", shown)
	}
	startTarget(t, "--export", "mem:1MiB", "--export", "mem:2MiB", "--allow-any-host", "--socket", socket)
	x.await("2 namespaces ", "/2 ")
	if out, err := x.run("resize-window", "-x", "130", "-y", "10"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	x.await(" STATE ", " SIZE\n", "2MiB", testNQN+"/2")
	x.press("q")
	x.await("ended with 0")
}
