package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSecondSignal: a program that does not come to its end, here since nobody reads what it
// prints, is ended by another signal; the two of timeout(1) are one.
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
		_ = cmd.Process.Kill() // so that it ends at all
		t.Fatal("it did not end")
	}
}

// TestSignalAtTheEnd checks that a signal that comes when the command has ended, before the
// process has, does not change the exit code.
func TestSignalAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 30 {
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
