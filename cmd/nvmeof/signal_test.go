package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSecondSignal checks that a program that does not end, here because nobody reads its output, is ended by another
// signal, and that the two signals of timeout(1) count as one.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd := program(t.Context(), t, "target", "schema")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	begun := make([]byte, 1)
	if _, err := r.Read(begun); err != nil { // it prints
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process
	signal := func() {
		t.Helper()
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	signal()
	signal()
	select {
	case err := <-ended:
		t.Fatalf("it ended with the first signal: %v", err)
	case <-time.After(2 * secondSignal):
	}
	signal()
	var exit *exec.ExitError
	select {
	case err := <-ended:
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Errorf("it ended with %v, not by the signal", err)
		}
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill() // so that it ends in any case
		t.Fatal("it did not end")
	}
}

// TestSignalAtTheEnd checks that a signal that arrives between the end of the command and that of the process does not
// change the exit code.
func TestSignalAtTheEnd(t *testing.T) {
	t.Parallel()
	times := 8
	if *long {
		times = 30
	}
	for range times {
		cmd := program(t.Context(), t, "version")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		begun := make([]byte, 1)
		if _, err := out.Read(begun); err != nil { // it prints
			t.Fatal(err)
		}
		_ = cmd.Process.Signal(unix.SIGTERM) // unless the process has ended
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("it ended with %v", err)
		}
	}
}

// TestClosedTerminal checks that SIGHUP, however often it arrives, ends a command that holds connections properly,
// even if nobody reads its output any more, unless it was started by nohup(1).
func TestClosedTerminal(t *testing.T) {
	beside(t)
	ownSocket(t)
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, unix.SIGHUP) // otherwise the children would ignore it if this process was started by nohup
	defer signal.Stop(taken)
	target := startSeparate(t, "target", "--listen", loopbackAddress(), "--nqn", testNQN, "--shards", "1", "--export", "mem:1MiB", "--allow-any-host")
	target.out.await(t, "nvme connect")
	addr, _, _ := strings.Cut(target.cmd.Args[3], ":")
	socket := filepath.Join(t.TempDir(), "s")
	attach := []string{"attach", "-a", addr, "-n", testNQN, "--socket", socket}
	for name, args := range map[string][]string{"attach": attach, "connect": {"connect", "-t", "rdma", "-a", addr, "-n", testNQN, "--no-publish"}} {
		s := startSeparate(t, args...)
		s.out.await(t, map[string]string{"attach": "nbd-client", "connect": "nvme"}[name])
		s.signal(t, unix.SIGHUP)
		s.signal(t, unix.SIGHUP)
		s.wantOrderly(t)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if n := strings.Count(target.errOut.String(), "keep alive"); n != 0 {
		t.Errorf("%d controllers were not disconnected", n)
	}

	unread := program(t.Context(), t, attach...) // as with 2>&1 | tee
	startReading(t, unread)
	dialNBD(t, socket, "1") // which it reports at the end
	survivor := program(t.Context(), t, append([]string{"attach", "-a", addr, "-n", testNQN, "--socket", socket + "2"}, "--duplicate-connect")...)
	survivor.Path, survivor.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, survivor.Path}, survivor.Args[1:]...)
	startReading(t, survivor)
	for _, p := range []*exec.Cmd{survivor, unread} {
		if err := p.Process.Signal(unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := unread.Wait(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("unix", socket+"2"); err != nil {
		t.Errorf("what nohup started has ended: %v", err)
	} else {
		_ = c.Close()
	}
	for _, sig := range []os.Signal{unix.SIGUSR1, unix.SIGTERM} { // it prints, which nobody reads
		if err := survivor.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	if err := survivor.Wait(); err != nil {
		t.Errorf("what nohup started: %v", err)
	}

	target.signal(t, unix.SIGHUP)
	target.wantOrderly(t)
}

// startReading starts attach, and reads its output until it has started.
func startReading(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if strings.Contains(lines.Text(), "nbd-client") {
			return
		}
	}
	t.Error("attach ended")
}

// wantOrderly checks that a process ends with exit code 0.
func (s *separate) wantOrderly(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if s.ended <- err; err != nil {
			t.Errorf("%v: %v", s.cmd.Args[1:], err)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("%v does not end", s.cmd.Args[1:])
	}
}
