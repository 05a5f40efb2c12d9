package target

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A leaving is the namespaces of a group that were given back while the target still uses their
// stores. It belongs to Gateway.mu.
type leaving struct {
	all   map[*Namespace]chan struct{} // closed when the store of that is not used any more
	ended chan struct{}                // closed when there are none
}

// Leaving lists namespaces of a group that the target has given back, and whose stores it still uses. The store of
// another one that it has given back (see [Subsystem.Namespaces]) can be closed, also before Drain or Release returns.
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

// awaitLeft waits for the store of a namespace that was given back.
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

// release leaves in place of a namespace one that is elsewhere, and has its volume closed. Each has a task: however many
// stores hang, the others do not wait for one. Whole says that nothing of the namespace is lost.
func (d *drain) release(n *Namespace, whole bool) {
	delete(d.pending, n)
	d.leave(n, whole) // before others can see that it is given back
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

// left notes that the target does not use a namespace's store any more.
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

// await waits for the stores that were given back, also by an earlier attempt: the target has no namespace of them any
// more. It fails if ctx ends before, or has ended before the busy ones were given back.
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
	var ended <-chan struct{} // nil while others are not given back
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
