// Package outlet writes what a process says that serves others, and has nobody who is
// served wait for whoever reads it: a terminal that was stopped, a pipe whose reader hangs or
// has ended, a journal that does not answer, a disk that is full.
package outlet

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
)

const (
	most    = 1 << 20     // bytes that wait to be written; what comes beyond is lost
	timeout = time.Second // without progress, at the end
)

// An outlet belongs to one command. What goes to its standard output and to its standard
// error is written in the order in which it came.
type outlet struct {
	done chan struct{} // closed when all is written

	mu      sync.Mutex // guards what follows
	work    sync.Cond
	queue   []message
	bytes   int // in queue
	written int // messages
	lost    int // lines, since that was last said
	closed  bool
}

type message struct {
	to   io.Writer
	text []byte
}

// Detach has what a command prints from now on written aside, and its process survive the
// end of who reads that. settle, at the end of the command, waits until all is written, or
// nobody takes it.
func Detach(cmd *cobra.Command) (settle func()) {
	o := &outlet{done: make(chan struct{})}
	o.work.L = &o.mu
	cmd.SetOut(&writer{o, cmd.OutOrStdout()})
	cmd.SetErr(&writer{o, cmd.ErrOrStderr()})
	forget := signals.On(unix.SIGPIPE, func() {}) // writing fails instead
	go o.run()                                    // ends after settle, or when who hangs takes what is written
	return func() {
		o.settle()
		forget()
	}
}

// A writer is one of the two that a command has.
type writer struct {
	outlet *outlet
	to     io.Writer
}

// Write implements [io.Writer]. It does not fail.
func (w *writer) Write(b []byte) (int, error) {
	w.outlet.add(w.to, []byte(failure.WithRemedy(string(b))))
	return len(b), nil
}

// Unwrap is where it is written to.
func (w *writer) Unwrap() io.Writer { return w.to }

// add takes b, which nobody else has.
func (o *outlet) add(to io.Writer, b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes+len(b) > most {
		o.lost += bytes.Count(b, []byte("\n"))
		return
	}
	if o.lost > 0 {
		note := fmt.Appendf(nil, "nvmeof: %d lines are missing here: the reader of the output accepted nothing\n", o.lost)
		o.queue, o.bytes, o.lost = append(o.queue, message{to, note}), o.bytes+len(note), 0
	}
	o.queue, o.bytes = append(o.queue, message{to, b}), o.bytes+len(b)
	o.work.Signal()
}

// run writes until the outlet is closed.
func (o *outlet) run() {
	defer close(o.done)
	for m, ok := o.next(); ok; m, ok = o.next() {
		_, err := m.to.Write(m.text)
		o.wrote(m, err)
	}
}

// next is what is to be written next, which stays in the queue meanwhile.
func (o *outlet) next() (m message, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 {
		if o.closed {
			return m, false
		}
		o.work.Wait()
	}
	return o.queue[0], true
}

// wrote takes what was written off the queue.
func (o *outlet) wrote(m message, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.bytes = o.queue[1:], o.bytes-len(m.text)
	o.written++
	if err != nil {
		o.lost += bytes.Count(m.text, []byte("\n"))
	}
}

func (o *outlet) settle() {
	o.mu.Lock()
	o.closed = true
	o.work.Signal()
	o.mu.Unlock()
	for before := -1; ; {
		o.mu.Lock()
		stuck := o.written == before
		before = o.written
		o.mu.Unlock()
		if stuck {
			return
		}
		select {
		case <-o.done:
			return
		case <-time.After(timeout):
		}
	}
}
