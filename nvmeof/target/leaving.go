package target

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A leaving has the namespaces of a group that were given back while the target still uses their stores. It is
// protected by Gateway.mu.
type leaving struct {
	all   map[*Namespace]chan struct{} // closed when the namespace's store is no longer used
	ended chan struct{}                // closed when all is empty
}

// Leaving lists the namespaces of a group that the target has given back and whose stores it still uses. The
// stores of other namespaces that it has given back (see [Subsystem.Namespaces]) can be closed, even before Drain
// or Release returns.
func (g *Gateway) Leaving(group capsule.ANAGroup) map[nvmeof.NQN][]capsule.NSID {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.group(group)
	if err != nil || o.leaving == nil {
		return nil
	}
	all := make(map[nvmeof.NQN][]capsule.NSID)
	for n := range o.leaving.all {
		all[n.subsystem.nqn] = append(all[n.subsystem.nqn], n.ns.ID)
	}
	return all
}

// awaitLeft waits until the store of a namespace that was given back is no longer used.
func (g *Gateway) awaitLeft(s *Subsystem, id capsule.NSID) {
	if g == nil {
		return
	}
	g.mu.Lock()
	var all []chan struct{}
	for i := range g.groups {
		if l := g.groups[i].leaving; l != nil {
			for n, left := range l.all {
				if n.subsystem == s && n.ns.ID == id {
					all = append(all, left)
				}
			}
		}
	}
	g.mu.Unlock()
	for _, left := range all {
		<-left
	}
}

// release replaces a namespace by one that is served elsewhere, and closes its volume. Each has a task of its own,
// so that stores that hang do not delay others. Whole means that no data of the namespace is lost.
func (d *drain) release(n *Namespace, whole bool) {
	delete(d.pending, n)
	d.leave(n, whole) // before others can see that the namespace is given back
	if !vacate(n) {
		d.left(n, nil)
		return
	}
	t := d.gateway.target
	t.tasks.Go(func() { d.left(n, t.volumes.Release(n.ns, nil)) }) // ends when the store has finished
}

func (d *drain) leave(n *Namespace, whole bool) {
	g := d.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	o := &g.groups[d.group]
	o.spoiled = o.spoiled || !whole
	if o.leaving == nil {
		o.leaving = &leaving{make(map[*Namespace]chan struct{}), make(chan struct{})}
	}
	o.leaving.all[n] = make(chan struct{})
}

// left notes that the target no longer uses a namespace's store.
func (d *drain) left(n *Namespace, err error) {
	g := d.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	d.errs = append(d.errs, err)
	o := &g.groups[d.group]
	close(o.leaving.all[n])
	if delete(o.leaving.all, n); len(o.leaving.all) == 0 {
		close(o.leaving.ended)
		o.leaving = nil
	}
}

// await waits until the stores that were given back, also by an earlier attempt, are no longer used. It returns an
// error if ctx ends first, or has ended before the busy namespaces were given back.
func (d *drain) await(ctx context.Context, busy []string) error {
	g := d.gateway
	g.mu.Lock()
	l := g.groups[d.group].leaving
	g.mu.Unlock()
	if l != nil {
		select {
		case <-l.ended:
		case <-ctx.Done():
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l = g.groups[d.group].leaving
	if l == nil && len(busy) == 0 {
		return errors.Join(d.errs...)
	}
	var ended <-chan struct{} // nil while some namespaces are not given back
	if len(busy) == 0 && len(d.failed) == 0 {
		ended = l.ended
	}
	if l != nil {
		for n := range l.all {
			busy = append(busy, n.name())
		}
	}
	err := d.hung(ctx, busy)
	err.Ended = ended
	return err
}
