package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

var _ backend.Resizer = (*Namespace)(nil)

// refreshTime bounds what Refresh asks the controller.
const refreshTime = 30 * time.Second

// Refresh implements [backend.Resizer]; see [Namespace.RefreshContext].
func (n *Namespace) Refresh() (changed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
	defer cancel()
	return n.RefreshContext(ctx)
}

// RefreshContext asks the controller for the namespace's size, and the rest of its
// Identify data, as they are now. Requests
// that begin later and reach beyond the end get [ErrOutOfRange], or
// [backend.ErrOutOfRange] of a Queue. Where the namespace is there no more, or has
// other unique identifiers or blocks, it returns [ErrRemoved], and so does each
// request until a Refresh finds it again: what was meant for one namespace goes to no
// other. After any other error all is as before.
func (n *Namespace) RefreshContext(ctx context.Context) (changed bool, err error) {
	now, err := n.controller.Namespace(ctx, n.id)
	switch {
	case errors.Is(err, ErrRemoved), err == nil && (now.ids != n.ids || now.shift != n.shift):
		n.removed.Store(true)
		return false, fmt.Errorf("namespace %d: %w", n.id, ErrRemoved)
	case err != nil:
		return false, err
	}
	n.identify.Store(now.Identify())
	size := now.Size()
	changed = n.size.Swap(size) != size
	n.removed.Store(false)
	return changed, nil
}
