package target

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

// open gives the namespace a lane on every shard.
func (n *Namespace) open(t *Target) error {
	n.target = t
	n.lanes = make([]lane, len(t.workers))
	viewer, _ := n.store.(backend.Viewer)
	if viewer != nil {
		region, err := t.domain.Register(viewer.Memory(), 0)
		if err != nil {
			return fmt.Errorf("namespace %d (%s): registering its memory: %w", n.id, n.name, err)
		}
		n.region = region
	}
	for i, w := range t.workers {
		q, watch, err := n.openQueue(w.shard, t.cfg.BackendDepth)
		if err != nil {
			return errors.Join(fmt.Errorf("namespace %d (%s): %w", n.id, n.name, err), n.close())
		}
		l := &n.lanes[i]
		l.init(n, w.shard, q, t.cfg.BackendDepth)
		l.watch = watch
		if viewer != nil {
			l.viewer, l.memory, l.key = viewer, viewer.Memory(), n.region.LKey()
		}
		if err := w.shard.Call(l.attach); err != nil {
			return errors.Join(err, q.Close(), n.close())
		}
		l.open = true
	}
	return nil
}

// openQueue opens a queue of the store for a shard, whose sleep its descriptor
// ends. Where either side has none of that the store notifies, by way of another
// goroutine.
func (n *Namespace) openQueue(s *shard.Shard, depth int) (backend.Queue, backend.Watchable, error) {
	q, err := n.store.NewQueue(depth, s.Wake)
	if err != nil {
		return nil, nil, err
	}
	w, ok := q.(backend.Watchable)
	if !ok || s.Watch(w.Descriptor()) == nil {
		if m, ok := q.(backend.MemoryUser); ok {
			m.UseMemory(s.Arena().Bytes(), shard.MaxBuffer)
		}
		return q, w, nil
	}
	// The descriptor is responsible now, and nobody looks at it.
	if err := q.Close(); err != nil {
		return nil, nil, err
	}
	q, err = n.store.NewQueue(depth, s.Wake)
	return q, nil, err
}

func (l *lane) attach() {
	l.shard.Attach(&l.slot, l)
	l.shard.AddPoller(l)
}

// close waits until no command uses the namespace any more, and gives its lanes
// back. No new one can have it by then.
func (n *Namespace) close() error {
	var errs []error
	for i := range n.lanes {
		if l := &n.lanes[i]; l.open {
			errs = append(errs, l.close())
			l.open = false
		}
	}
	if n.region != nil {
		errs = append(errs, n.region.Deregister())
		n.region = nil
	}
	return errors.Join(errs...)
}

// close ends the lane from outside its shard.
func (l *lane) close() error {
	idle := make(chan struct{})
	err := l.shard.Call(func() {
		detach := func() {
			l.shard.RemovePoller(l)
			l.slot.Detach()
			close(idle)
		}
		if l.users == 0 {
			detach()
			return
		}
		l.closing = detach
	})
	if err != nil {
		return errors.Join(err, l.queue.Close())
	}
	<-idle
	return l.queue.Close()
}
