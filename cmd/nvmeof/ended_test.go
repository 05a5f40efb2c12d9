package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A writer calls a function with each write.
type writer struct {
	text bytes.Buffer
	then func()
}

func (w *writer) Write(b []byte) (int, error) {
	w.then()
	return w.text.Write(b)
}

// TestDoneAndNotDisconnected checks that a command that has done its work succeeds even if its target hangs then, so
// that the connection is not ended properly; it only prints a warning. A program that checks the exit status would
// otherwise repeat the work.
func TestDoneAndNotDisconnected(t *testing.T) {
	beside(t)
	c := configure(t, durable)
	target := startDurable(t, c)
	for _, args := range [][]string{{"id-ns", "--namespace-id", "1"}, {"id-ns", "--namespace-id", "1", "-o", "json"}} {
		args = c.at(args[0], append(args[1:], "-n", testNQN)...)
		ctx, cancel := context.WithCancel(t.Context())
		out, errOut := &writer{then: func() { target.signal(t, unix.SIGSTOP); cancel() }}, newOutput()
		root := newRootFor(args, nil)
		root.SetOut(out)
		root.SetErr(errOut)
		if err := execute(ctx, root, args); err != nil {
			t.Errorf("%q failed, and has written\n%s: %v", args, out.text.String(), err)
		}
		if !strings.Contains(errOut.String(), "warning: the command succeeded, but its connection was not closed properly: shutting down controller ") {
			t.Errorf("%q says\n%s", args, errOut)
		}
		target.signal(t, unix.SIGCONT)
	}
}
