package target

import (
	"errors"
	"fmt"
	"slices"
	"sync"
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

// flushStores makes durable what hosts, of which there are none any more, wrote to the subsystem's
// namespaces, and reports whether all of it is. That what a store has lost as it failed is not
// durable is no error: it was reported. Nor is it one that somebody has closed a store.
func flushStores(s *Subsystem) (durable bool, err error) {
	var volumes []*storage.Volume
	for _, n := range s.Namespaces() {
		if v := n.ns.Volume; v != nil && v.Unflushed() && !slices.Contains(volumes, v) {
			volumes = append(volumes, v)
		}
	}
	errs, room := make([]error, len(volumes)), make(chan struct{}, drainFlushes)
	var flushing sync.WaitGroup
	for i, v := range volumes {
		room <- struct{}{}
		flushing.Go(func() { // ends when the store has ended the flush
			ended := make(chan error, 1)
			if v.OnLane(func(l *storage.Lane) { new(flush).start(l, func(err error) { ended <- err }) }) {
				errs[i] = <-ended
			}
			<-room
		})
	}
	flushing.Wait()
	durable = true
	for i, v := range volumes {
		switch {
		case errs[i] == nil:
			continue
		case v.Latched() != nil, errors.Is(errs[i], backend.ErrClosed):
			errs[i] = nil
		default:
			errs[i] = fmt.Errorf("flush of %s: %w", v.Name, errs[i])
		}
		durable = false
	}
	return durable, errors.Join(errs...)
}
