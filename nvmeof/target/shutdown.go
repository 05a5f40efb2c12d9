package target

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// flushAll flushes namespaces of a controller's subsystem, several at a time, so that a store that hangs does not
// delay others.
type flushAll struct {
	c      *Controller
	when   string                        // for the log
	which  func(*storage.Namespace) bool // nil: all
	ended  func(err error)               // called with the first error, or errForgone
	after  capsule.NSID
	active []flushOf
	err    error
}

// A flushOf is the flush of a namespace.
type flushOf struct {
	ns *storage.Namespace
	*flush
}

// flushes is how many concurrent flushes a controller has: each may occupy a thread.
const flushes = 16

// errForgone ends flushes whose association has ended.
var errForgone = errors.New("the association has ended")

// A shutdown is the state of a controller's shutdown: it waits for the I/O queues, and then for a flush.
type shutdown struct {
	waiting, active bool
	timer           shard.Timer // supervises the flush
}

// hangCheck is the interval at which a shutdown checks for flushes that it need not wait for.
const hangCheck = time.Second

// flushWhenDrained begins a shutdown.
func (c *Controller) flushWhenDrained() {
	c.shutdown.waiting = true
	c.drained()
}

// drained continues when the last I/O queue has ended.
func (c *Controller) drained() {
	s := &c.shutdown
	if !s.waiting || s.active || c.queueCount() > 0 {
		return
	}
	if c.props.CC.Shutdown() == capsule.ShutdownAbrupt {
		s.waiting = false
		c.props.ShutdownDone()
		return
	}
	s.waiting, s.active = false, true
	f := &flushAll{c: c, when: "flush at shutdown"}
	f.which = f.ofUse
	f.ended = func(err error) {
		s.active = false
		c.shard.StopTimer(&s.timer)
		switch {
		case err == errForgone:
		case s.waiting: // a reset has ended that shutdown meanwhile, and another one has begun
			c.drained()
		case c.props.CSTS.Shutdown() == capsule.ShutdownOccurring:
			c.props.ShutdownDone()
		}
	}
	s.timer.Func = func() {
		if f.forgo(func(ns *storage.Namespace) bool { return !f.ofUse(ns) }, nil); s.active {
			c.shard.SetTimer(&s.timer, hangCheck)
		}
	}
	if !f.begin() {
		c.shard.SetTimer(&s.timer, hangCheck)
	}
}

// ofUse reports whether a shutdown waits for the flush of a namespace. If its store hangs, that could take
// forever, and a host that has written nothing there does not need it.
func (f *flushAll) ofUse(ns *storage.Namespace) bool {
	if !ns.Volume.Hangs() {
		return true
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.c.written.Has(ns.ID)
}

// begin begins the flushes. It returns true if all are done, after calling ended.
func (f *flushAll) begin() bool {
	f.c.flushing.all = append(f.c.flushing.all, f)
	return f.next()
}

// next begins flushes of further namespaces, in order. It returns true if all are done, after calling ended.
func (f *flushAll) next() bool {
	table := f.c.view.Table.Load()
	for len(f.active) < flushes && f.after < table.Last() {
		f.after++
		ns := table.Get(f.after)
		if ns == nil || !ns.Volume.Info.Volatile || f.which != nil && !f.which(ns) {
			continue
		}
		if l := ns.Volume.Lane(f.c.admin.worker.lanes.Index); l.Attached { // otherwise the device is being removed
			n := flushOf{ns, new(flush)}
			f.active = append(f.active, n)
			n.start(l, func(err error) { f.flushed(n, err) })
		}
	}
	if len(f.active) > 0 {
		return false
	}
	f.end(f.err)
	return true
}

func (f *flushAll) end(err error) {
	f.c.flushing.all = slices.DeleteFunc(f.c.flushing.all, func(o *flushAll) bool { return o == f })
	f.ended(err)
}

// flushed continues with the next namespace.
func (f *flushAll) flushed(n flushOf, err error) {
	if err != nil {
		f.c.target.log.Troubles.Write(f.c.log.Error, f.when+" failed",
			[]zap.Field{zap.Uint32("nsid", uint32(n.ns.ID)), zap.Error(err)})
		f.err = cmp.Or(f.err, err)
	}
	f.active = slices.DeleteFunc(f.active, func(o flushOf) bool { return o == n })
	f.next()
}

// forgo stops waiting for the flushes of some namespaces. With an error it ends f.
func (f *flushAll) forgo(which func(*storage.Namespace) bool, err error) {
	before := len(f.active)
	f.active = slices.DeleteFunc(f.active, func(n flushOf) bool {
		if which(n.ns) {
			n.abandon()
			return true
		}
		return false
	})
	switch {
	case err != nil:
		f.end(err)
	case len(f.active) < before:
		f.next()
	}
}

// flushing has the operations of a controller that wait for flushes.
type flushing struct {
	all        []*flushAll
	protecting []*protecting
}

// forgo stops waiting for all flushes: the host cannot learn of their end any more, and the number of waiting
// operations must not grow with each association while a store hangs.
func (w *flushing) forgo() {
	for _, f := range slices.Clone(w.all) {
		f.forgo(func(*storage.Namespace) bool { return true }, errForgone)
	}
	for _, p := range w.protecting {
		p.flush.abandon()
		p.end(capsule.StatusSQDeleted)
	}
	w.protecting = nil
}
