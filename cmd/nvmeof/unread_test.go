package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadLog checks that a target whose log is not read, as on a stopped terminal, serves hosts and its
// administrator as before, and writes the log later. It also continues when the reader of the log has ended.
func TestUnreadLog(t *testing.T) {
	beside(t)
	ownSocket(t)
	addr := loopbackAddress()
	target := program(t.Context(), t, "target", "--listen", addr, "--nqn", testNQN, "--shards", "1", "--export", "mem:1MiB", "--allow-any-host")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	target.Stdout, target.Stderr = w, w
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Process.Kill() }) // unless it has ended
	lines := bufio.NewScanner(r)
	read := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		t.Fatalf("the log ends without %q", what)
	}
	read("on a Linux host")
	fill(t, w)
	_ = w.Close()

	for nsid := 2; nsid < 5; nsid++ {
		if o := command(t, "namespace", "add", fmt.Sprint(nsid), "-n", testNQN, "--memory", "1MiB"); o.err != nil {
			t.Fatal(o.err, o.errOut)
		}
	}
	host, _, _ := strings.Cut(addr, ":")
	idNS := []string{"id-ns", "-t", "rdma", "-a", host, "-n", testNQN, "--namespace-id", "4"}
	if o := command(t, idNS...); o.err != nil {
		t.Fatal(o.err, o.errOut)
	}
	read("add namespace 4 of " + testNQN)

	_ = r.Close()
	if o := command(t, "namespace", "remove", "4", "-n", testNQN, "--force"); o.err != nil {
		t.Fatal(o.err, o.errOut)
	}
	if err := target.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := target.Wait(); err != nil {
		t.Errorf("nobody reads what it prints: %v", err)
	}
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for err == nil {
		_, err = unix.Write(fd, []byte("\n"))
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
}
