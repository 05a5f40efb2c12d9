package target

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// flushAll flushes namespaces of a controller's subsystem, some at a time: a store that hangs
// delays no other.
type flushAll struct {
	c      *Controller
	when   string                        // for the log
	which  func(*storage.Namespace) bool // nil: all
	ended  func(err error)               // with the first failure
	after  capsule.NSID
	active int
	err    error
}

// flushes is how many flushes of a controller are under way at a time: each may have a thread.
const flushes = 16

// A shutdown waits for the I/O queues, and then for a flush.
type shutdown struct{ waiting, active bool }

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
	s.waiting, s.active = false, true
	f := flushAll{c: c, when: "flush at shutdown", ended: func(error) {
		s.active = false
		// A reset in the meantime has ended the shutdown.
		if c.props.CSTS.Shutdown() == capsule.ShutdownOccurring {
			c.props.ShutdownDone()
		}
	}}
	f.next()
}

// next flushes the next namespaces in order, or reports that all are flushed, after it has
// called ended.
func (f *flushAll) next() bool {
	table := f.c.view.Table.Load()
	for f.active < flushes && f.after < table.Last() {
		f.after++
		ns := table.Get(f.after)
		if ns == nil || !ns.Volume.Info.Volatile || f.which != nil && !f.which(ns) {
			continue
		}
		if l := ns.Volume.Lane(f.c.admin.worker.lanes.Index); l.Attached { // else the device is being removed
			f.active++
			new(flush).start(l, func(err error) { f.flushed(ns.ID, err) })
		}
	}
	if f.active > 0 {
		return false
	}
	f.ended(f.err)
	return true
}

// flushed continues with the next namespace.
func (f *flushAll) flushed(id capsule.NSID, err error) {
	if err != nil {
		f.c.target.log.Troubles.Write(f.c.log.Error, f.when+" failed",
			[]zap.Field{zap.Uint32("nsid", uint32(id)), zap.Error(err)})
		f.err = cmp.Or(f.err, err)
	}
	f.active--
	f.next()
}
