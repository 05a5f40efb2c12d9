package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

var _ backend.Resizer = (*Namespace)(nil)

// refreshTime bounds the commands of Refresh.
const refreshTime = 30 * time.Second

// Refresh implements [backend.Resizer]; see [Namespace.RefreshContext].
func (n *Namespace) Refresh() (changed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
	defer cancel()
	return n.RefreshContext(ctx)
}

// RefreshContext reads the namespace's Identify data, including its size, from the controller. Requests that begin
// later and reach beyond the new end fail with [ErrOutOfRange], or [backend.ErrOutOfRange] on a Queue.
//
// If the namespace no longer exists, has other unique identifiers or another block size, or this host cannot use it any
// more, the error is an [ErrRemoved]. All requests fail with it until a Refresh finds the namespace again, so that none
// reaches another namespace. After any other error the state of the namespace is unknown, and requests fail with
// [ErrUnseen] until a Refresh succeeds.
func (n *Namespace) RefreshContext(ctx context.Context) (changed bool, err error) {
	n.refreshing.Lock()
	defer n.refreshing.Unlock()
	now, err := n.controller.Namespace(ctx, n.io.ID)
	if err = n.compare(now, err); err != nil {
		why := err
		if !errors.Is(err, ErrRemoved) {
			why = fmt.Errorf("%w: %v", ErrUnseen, err) // %v, not %w: err is the result of Identify, not of a request
		}
		n.io.Bar.Set(why)
		return false, err
	}
	n.identify.Store(now.Identify())
	size := now.Size()
	changed = n.size.Swap(size) != size
	n.io.Bar.Lift()
	return changed, nil
}

// Suspend fails requests that have not been sent, and new ones, with [ErrUnseen] until a Refresh. Call it before
// Refresh if another namespace may have taken the place of this one: a controller may accept requests as soon as it has
// answered Identify, which is before its response arrives here.
func (n *Namespace) Suspend() {
	n.io.Bar.Set(fmt.Errorf("%w: namespace %d is being identified", ErrUnseen, n.io.ID))
}

// compare checks the result of identifying the namespace again, and returns an [ErrRemoved] if it is another one.
func (n *Namespace) compare(now *Namespace, err error) error {
	var unusable *UnusableError
	switch {
	case errors.As(err, &unusable):
		return unusable.Removed()
	case errors.Is(err, ErrRemoved):
		return fmt.Errorf("namespace %d: %w", n.io.ID, ErrRemoved)
	case err != nil:
		return err
	case now.ids != n.ids:
		return &RemovedError{n.io.ID, fmt.Sprintf("is a different one: its identifier is now %v, and was %v", now.ids, n.ids)}
	case now.io.Shift != n.io.Shift:
		return &RemovedError{n.io.ID, fmt.Sprintf("has blocks of %d bytes now, and had %d", now.BlockSize(), n.BlockSize())}
	}
	return nil
}
