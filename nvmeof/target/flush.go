package target

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A flush makes durable what was written to a namespace, where no Flush command requests
// it. It belongs to the shard of its lane.
type flush struct {
	op   storage.Operation
	done func(err error)
}

// start begins a flush; done is called in the shard when it has completed.
func (f *flush) start(l *storage.Lane, done func(err error)) {
	f.op.Owner, f.done = f, done
	l.Enter(&f.op)
	f.op.Request = backend.Request{Op: backend.OpFlush}
	l.Put(&f.op)
}

// abandon has nobody wait for the flush any more. It ends when the store ends it, if that has it.
func (f *flush) abandon() {
	f.done = func(error) {}
	if f.op.Lane.Withdraw(&f.op) {
		f.op.Release()
	}
}

// Completed implements [storage.Owner].
func (f *flush) Completed(err error) {
	if err != nil {
		f.op.Lane.Failure(backend.OpFlush, err)
	}
	f.op.Release()
	f.done(err)
}

// Leasable and Admitted implement [storage.Owner]: a flush takes no lease, and no gate.
func (f *flush) Leasable() {}
func (f *flush) Admitted() {}

// Wanted implements [storage.Owner]: a flush leases nothing.
func (f *flush) Wanted(time.Duration) {}
