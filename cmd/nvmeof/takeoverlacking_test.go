package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTakeoverLacking checks that a process that cannot open what hosts use, here because the path leads elsewhere for
// it, does not take over: the running target continues, and its hosts see no error.
func TestTakeoverLacking(t *testing.T) {
	besideShort(t)
	c := configure(t, strings.Replace(testConfig, "DIR/disk.img", "/proc/self/cwd/disk.img", 1))
	first := program(t.Context(), t, "target", "--config", c.file)
	first.Dir = c.dir
	s := startSeparately(t, first)
	s.out.await(t, "nvme connect")
	load := startVerified(t, c.addr, "2", time.Second)
	time.Sleep(200 * time.Millisecond)
	second := program(t.Context(), t, "target", "--config", c.file, "--takeover")
	second.Dir = t.TempDir()
	next := startSeparately(t, second)
	next.awaitEnd(t)
	const want = "cannot serve namespace 2 of " + testNQN + ", which the running target serves to hosts: /proc/self/cwd/disk.img is missing"
	if said := next.errOut.String(); !strings.Contains(said, want) || !strings.Contains(said, "the running target continues") {
		t.Errorf("it says %q, want %q", said, want)
	}
	t.Logf("a command took %v at most", load.stall(t))
	if all, err := os.ReadDir(second.Dir); err != nil || len(all) > 0 {
		t.Errorf("it made %v, %v", all, err)
	}
	s.signal(t, unix.SIGTERM)
	s.await(t, 10*time.Second)
}
