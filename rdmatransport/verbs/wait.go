//go:build verbs && cgo && linux

package verbs

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	base "github.com/nvmeof-go/nvmeof/rdmatransport/internal/waiter"
)

// A waiter blocks the owner of a completion queue until something happens: on the completion channel, on the
// descriptors given to Watch and, for a device's first queue, in the RDMA CM or the device's asynchronous events.
type waiter struct {
	base.Waiter
	control  atomic.Bool // the RDMA CM or the device has an event
	looked   atomic.Bool // all descriptors were checked since the owner last asked
	reported atomic.Bool // the completion channel was readable
	controls [2]int      // descriptors that set control; 0: none
	channel  int         // the completion channel
}

func (w *waiter) open(channel int) error {
	w.channel, w.Guesses = channel, true
	err := w.Open()
	if err == nil {
		if err = w.Add(channel); err != nil {
			w.Close()
		}
	}
	return err
}

func (w *waiter) wait(d time.Duration) {
	events, blind := w.Wait(d)
	for _, e := range events {
		w.note(&e)
	}
	if blind {
		w.reported.Store(true) // most likely
	}
	w.looked.Store(len(events) < base.Most)
}

func (w *waiter) note(e *unix.EpollEvent) {
	switch int(e.Fd) {
	case w.channel:
		w.reported.Store(true)
	case w.controls[0], w.controls[1]:
		w.control.Store(true)
	}
}
