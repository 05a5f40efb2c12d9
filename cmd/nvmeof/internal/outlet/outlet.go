// Package outlet writes the output of a process that serves others. The process never waits for the reader of its
// output: a terminal that was stopped, a pipe whose reader hangs or has ended, a journal that does not answer, a full
// disk.
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
	most    = 1 << 20     // maximum of bytes waiting to be written; more is lost
	timeout = time.Second // without progress, at the end
)

// An outlet belongs to one command. It writes the text for standard output and standard error in the order in which it
// arrived.
type outlet struct {
	done chan struct{} // closed when everything is written

	mu      sync.Mutex // guards the fields below
	work    sync.Cond
	queue   []message
	bytes   int // in queue
	written int // number of messages written
	lost    int // lines lost since the last report of lost lines
	closed  bool
}

type message struct {
	to   io.Writer
	text []byte
}

// Detach makes the command's output asynchronous from now on, and lets the process survive the end of the reader.
// settle, called at the end of the command, waits until everything is written or there is no more progress.
func Detach(cmd *cobra.Command) (settle func()) {
	o := &outlet{done: make(chan struct{})}
	o.work.L = &o.mu
	cmd.SetOut(&writer{o, cmd.OutOrStdout()})
	cmd.SetErr(&writer{o, cmd.ErrOrStderr()})
	forget := signals.On(unix.SIGPIPE, func() {}) // a write fails instead
	go o.run()                                    // ends after settle, or when a reader that hung reads again
	return func() {
		o.settle()
		forget()
	}
}

// A writer is the standard output or standard error of a command.
type writer struct {
	outlet *outlet
	to     io.Writer
}

// Write implements [io.Writer]. It never fails.
func (w *writer) Write(b []byte) (int, error) {
	w.outlet.add(w.to, []byte(failure.WithRemedy(string(b))))
	return len(b), nil
}

// Unwrap returns the underlying writer.
func (w *writer) Unwrap() io.Writer { return w.to }

// add queues b, and becomes its owner.
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

// next returns the next message, which stays in the queue until wrote is called.
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

// wrote removes a message that was written from the queue.
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
