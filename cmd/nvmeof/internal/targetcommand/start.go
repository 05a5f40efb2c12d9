package targetcommand

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/outlet"
)

// A start is a target that does not serve yet.
type start struct {
	out, errOut quiet
	begun       chan struct{} // closed when it serves
}

// release writes what was held back, and stops holding back output. Warnings come first, so that a user who waits for
// the target has seen them.
func (s *start) release() {
	s.errOut.release()
	s.out.release()
}

// begin runs a target. Its output is held back until it serves: if the start fails, only the error is shown.
func (d *Daemon) begin(cmd *cobra.Command, run func(*cobra.Command, *Daemon, *start) error) error {
	defer outlet.Detach(cmd)()
	s := &start{begun: make(chan struct{}), out: quiet{w: cmd.OutOrStdout()}, errOut: quiet{w: cmd.ErrOrStderr()}}
	defer time.AfterFunc(quietTime, s.release).Stop() // ends when what is held is written
	d.Out, d.ErrOut = &s.out, &s.errOut
	d.begun = func() {
		s.release()
		close(s.begun)
	}
	return unlessHung(cmd.Context(), s.begun, func() string {
		return cmp.Or(d.opening.String(), "a file or device that it reads or exports")
	}, func() error { return run(cmd, d, s) })
}

// hungTime is how long after a signal the start may still take.
const hungTime = 3 * time.Second

// A hungError is returned when a signal ended the process while a file system or device did not answer.
type hungError struct{ what string }

func (e *hungError) Error() string { return "interrupted: " + e.what + " does not answer" }

func (e *hungError) Unwrap() error { return context.Canceled }

// unlessHung calls f. If ctx ends and f does not return within hungTime, unlessHung returns without it, since a file
// system that does not answer blocks f in the kernel. Once orderly is closed, f is always waited for.
func unlessHung(ctx context.Context, orderly <-chan struct{}, what func() string, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }() // ends with f, or with the process
	select {
	case err := <-ended:
		return err
	case <-orderly:
		return <-ended
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-orderly:
		return <-ended
	case <-time.After(hungTime):
		return &hungError{what()}
	}
}

// stopTime is how long a target that stops waits in total for stores that hang. systemd waits for TimeoutStopSec, and
// then kills the process.
const stopTime = 20 * time.Second

// An unfinishedError is returned when a target has stopped while stores still had commands of hosts.
type unfinishedError struct{ names []string }

func (e *unfinishedError) Error() string {
	return fmt.Sprintf("stopped after %v, although the store of %s has not finished commands: their hosts got no response, and what they wrote may be on the store or not; "+
		"check its file system or device", stopTime, strings.Join(e.names, ", that of "))
}

// end closes a target. Commands of stores that hang are abandoned; they end with the process.
func end(closes func() error, unfinished func() []string) error {
	ended := make(chan error, 1)
	go func() { ended <- closes() }() // ends with closes, or with the process
	for wait := stopTime; ; wait = time.Second {
		select {
		case err := <-ended:
			return err
		case <-time.After(wait):
		}
		if names := unfinished(); len(names) > 0 {
			return &unfinishedError{names}
		}
	}
}

// An opening tracks the paths that are being opened: more than one while a file system hangs.
type opening struct {
	mu    sync.Mutex
	paths []string
}

func (o *opening) begin(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paths = append(o.paths, path)
}

func (o *opening) end(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.paths, path); i >= 0 {
		o.paths = slices.Delete(o.paths, i, i+1)
	}
}

// String returns the first path, which may block the others; empty: none.
func (o *opening) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.paths) == 0 {
		return ""
	}
	return o.paths[0]
}

// openTime is how long opening a file may take that the target needs to start.
const openTime = 30 * time.Second

// opened opens such a file. After openTime it returns an error and abandons the call.
func opened[F any](o *opening, path string, open func() (F, error)) (f F, err error) {
	ended := make(chan error, 1)
	o.begin(path)
	defer o.end(path)
	var late F
	go func() { // ends when the file system has answered, or with the process
		var err error
		late, err = open()
		ended <- err
	}()
	select {
	case err := <-ended:
		return late, err
	case <-time.After(openTime):
		return f, fmt.Errorf("%s could not be opened within %v: check its file system, or use a file on another one", path, openTime)
	}
}

// quietTime is how long the output of a start is held back at most.
const quietTime = 2 * time.Second

// A quiet writer holds back its output until it is released.
type quiet struct {
	w io.Writer

	mu   sync.Mutex // guards the fields below
	held []byte
	open bool
}

// Write implements [io.Writer].
func (q *quiet) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open {
		q.held = append(q.held, b...)
		return len(b), nil
	}
	return q.w.Write(b)
}

func (q *quiet) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = true
	if len(q.held) > 0 {
		fmt.Fprintf(q.w, "%s", q.held)
		q.held = nil
	}
}
