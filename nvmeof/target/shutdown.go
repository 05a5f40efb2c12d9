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

// flushAll flushes namespaces of a controller's subsystem, some at a time: a store that hangs
// delays no other.
type flushAll struct {
	c      *Controller
	when   string                        // for the log
	which  func(*storage.Namespace) bool // nil: all
	ended  func(err error)               // with the first failure, or errForgone
	after  capsule.NSID
	active []flushOf
	err    error
}

// A flushOf is the flush of a namespace.
type flushOf struct {
	ns *storage.Namespace
	*flush
}

// flushes is how many flushes of a controller are under way at a time: each may have a thread.
const flushes = 16

// errForgone ends flushes with the association for which they were.
var errForgone = errors.New("the association has ended")

// A shutdown waits for the I/O queues, and then for a flush.
type shutdown struct {
	waiting, active bool
	timer           shard.Timer // looks after the flush
}

// hangCheck is how often a shutdown looks whether it waits for what it need not wait for.
const hangCheck = time.Second

// flushWhenDrained begins the shutdown. It is called once per shutdown.
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
		case s.waiting: // a reset in the meantime has ended the shutdown, and this is for another one
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

// ofUse reports whether a shutdown waits until what was written to a namespace is durable.
// Where its store hangs that may take for ever, and is of no use to a host that has written
// nothing there.
func (f *flushAll) ofUse(ns *storage.Namespace) bool {
	if !ns.Volume.Hangs() {
		return true
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.c.written.Has(ns.ID)
}

// begin flushes, and reports whether all is flushed, after it has called ended.
func (f *flushAll) begin() bool {
	f.c.flushing.all = append(f.c.flushing.all, f)
	return f.next()
}

// next flushes the next namespaces in order, or reports that all are flushed, after it
// has called ended.
func (f *flushAll) next() bool {
	table := f.c.view.Table.Load()
	for len(f.active) < flushes && f.after < table.Last() {
		f.after++
		ns := table.Get(f.after)
		if ns == nil || !ns.Volume.Info.Volatile || f.which != nil && !f.which(ns) {
			continue
		}
		if l := ns.Volume.Lane(f.c.admin.worker.lanes.Index); l.Attached { // else the device is being removed
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

// forgo waits for the flushes of some namespaces no longer. With an error it ends the whole.
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

// A flushing is what waits for flushes in the name of a controller.
type flushing struct {
	all        []*flushAll
	protecting []*protecting
}

// forgo waits for no flush any more: nobody would learn that it has ended, and what waits for
// a store that hangs is not to grow with each association.
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
