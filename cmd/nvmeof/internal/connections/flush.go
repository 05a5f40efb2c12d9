package connections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// FlushTime is how long controllers may take to make all writes durable at the end.
const FlushTime = 5 * time.Second

// A flushing is a flush of a namespace in progress.
type flushing struct {
	id    capsule.NSID
	ended chan error
}

// Flush makes durable all writes that a front end has acknowledged to the namespaces of a subsystem with those
// controllers. A namespace that does not answer delays neither the other flushes nor the return of Flush beyond
// FlushTime.
func Flush(controllers []Controller, namespaces []Namespace) error {
	is := func(s State) func(Controller) bool {
		return func(c Controller) bool { return c.Status().State == s }
	}
	lost := !slices.ContainsFunc(controllers, is(Live))
	if lost && !slices.ContainsFunc(controllers, is(Connecting)) {
		return nil // it is reported elsewhere
	}
	ctx, cancel := context.WithTimeout(context.Background(), FlushTime)
	defer cancel()
	var all []flushing
	var errs []error
	for i := range namespaces {
		n := &namespaces[i]
		if info := n.Store.Info(); info.Volatile && !info.ReadOnly && (n.Unflushed == nil || n.Unflushed()) {
			if lost {
				errs = append(errs, unflushed(n.ID, errNoPath))
				continue
			}
			f := flushing{n.ID, make(chan error, 1)}
			all = append(all, f)
			go func() { f.ended <- n.Flush(ctx) }() // ends with the subsystem at the latest
		}
	}
	for _, f := range all {
		errs = append(errs, unflushed(f.id, f.wait(ctx)))
	}
	return errors.Join(errs...)
}

// errNoPath is reported in place of a flush that could not complete.
var errNoPath = errors.New("the controller was lost and is not reconnected yet")

// wait returns the result of a flush, or the error of ctx if that ends first. The flush itself ignores ctx once its
// command has been given to a store.
func (f *flushing) wait(ctx context.Context) error {
	select {
	case err := <-f.ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-f.ended:
		return err
	default:
		return ctx.Err()
	}
}

// unflushed wraps the error of a flush with its consequence for the user.
func unflushed(id capsule.NSID, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v", FlushTime)
	}
	return fmt.Errorf("namespace %d was not flushed: %w; data that clients wrote since their last flush may be lost if the target loses power", uint32(id), err)
}
