package target

import (
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// flushAll flushes a subsystem's namespaces one after the other when a
// controller is shut down, after its I/O queues are gone.
type flushAll struct {
	c       *Controller
	waiting bool // for the I/O queues
	active  bool
	after   capsule.NSID
	volume.Operation
}

// flushWhenDrained begins. It is called once per shutdown.
func (c *Controller) flushWhenDrained() {
	c.shutdown.waiting = true
	c.drained()
}

// drained looks whether the last I/O queue has gone.
func (c *Controller) drained() {
	f := &c.shutdown
	if !f.waiting || f.active || c.queueCount() > 0 {
		return
	}
	f.waiting, f.active, f.after = false, true, 0
	f.c, f.Owner = c, f
	f.next()
}

// next flushes the namespace after the last one.
func (f *flushAll) next() {
	table := f.c.subsystem.table()
	for f.after < table.Last() {
		f.after++
		ns := table.Get(f.after)
		if ns == nil || !ns.Volume.Info.Volatile {
			continue
		}
		if l := ns.Volume.Lanes[f.c.admin.worker.Index].Load(); l.Attached { // else the device is being removed
			l.Enter(&f.Operation)
			f.Request = backend.Request{Op: backend.OpFlush}
			l.Put(&f.Operation)
			return
		}
	}
	f.active = false
	// A reset in the meantime began anew.
	if f.c.props.CSTS.Shutdown() == capsule.ShutdownOccurring {
		f.c.props.ShutdownDone()
	}
}

// Completed implements [operationOwner].
func (f *flushAll) Completed(err error) {
	if err != nil {
		f.Lane.Failure(backend.OpFlush, err)
		f.c.target.limit.write(f.c.log.Error, "flush at shutdown failed",
			[]zap.Field{zap.Uint32("nsid", uint32(f.after)), zap.Error(err)})
	}
	f.Operation.Release()
	f.next()
}

// Leasable implements [operationOwner]; a flush takes no lease.
func (f *flushAll) Leasable() {}
