package connections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Direct is a Connector without multipath: the namespaces are those of one live
// controller, and requests fail when it is lost, while it is connected to again. Then
// its namespaces have other stores.
type Direct struct{}

// Connect implements [Connector].
func (Direct) Connect(ctx context.Context, first Path, changed func()) (Subsystem, Controller, error) {
	s := &directSubsystem{changed: changed}
	c, err := s.Add(ctx, first)
	if err != nil {
		return nil, nil, err
	}
	return s, c, nil
}

type directSubsystem struct {
	changed func()

	mu  sync.Mutex // guards what follows
	all []*directController
}

// Policy implements [Subsystem].
func (s *directSubsystem) Policy() string { return "numa" }

// Add implements [Subsystem].
func (s *directSubsystem) Add(ctx context.Context, p Path) (Controller, error) {
	c := &directController{path: p, sub: s, ended: make(chan struct{})}
	c.ctx, c.end = context.WithCancel(context.Background())
	if err := c.connect(ctx); err != nil {
		c.end()
		return nil, err
	}
	s.mu.Lock()
	s.all = append(s.all, c)
	s.mu.Unlock()
	go c.keep() // owned by the controller; ends after Disconnect, or when it is given up
	return c, nil
}

// Close implements [Subsystem].
func (s *directSubsystem) Close() error {
	var errs []error
	for _, c := range s.controllers() {
		errs = append(errs, c.Disconnect())
	}
	return errors.Join(errs...)
}

func (s *directSubsystem) controllers() []*directController {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Namespaces implements [Subsystem].
func (s *directSubsystem) Namespaces(ctx context.Context) ([]Namespace, error) {
	for _, c := range s.controllers() {
		if c.Status().State == Live {
			return c.namespaces(ctx)
		}
	}
	return nil, nil
}

// A directController is connected to anew when it is lost.
type directController struct {
	path  Path
	sub   *directSubsystem
	ctx   context.Context // until Disconnect
	end   context.CancelFunc
	ended chan struct{} // closed when keep has returned

	looking sync.Mutex // held while namespaces are looked at

	mu      sync.Mutex // guards what follows; held for moments only
	current *host.Controller
	status  Status
	open    []Namespace // of current, as last looked at
	stale   bool        // open may have changed
	bye     error       // of Disconnect
}

// connect makes a connection and takes it for the current one.
func (c *directController) connect(ctx context.Context) error {
	o := c.path.Options
	o.Event = func(e capsule.AsyncEvent) { c.event(e) }
	current, err := c.path.Host.Connect(ctx, o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.open, c.stale = current, nil, true
	c.status = Status{State: Live, ID: current.ID(), Identify: *current.Identify()}
	return nil
}

// Status implements [Controller].
func (c *directController) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *directController) set(s State, err error) {
	c.mu.Lock()
	c.status.State, c.status.Err = s, err
	c.mu.Unlock()
	c.sub.changed()
}

// Disconnect implements [Controller].
func (c *directController) Disconnect() error {
	c.set(Deleting, nil)
	c.end()
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye
}

// leaveTime is how long a controller may take to let go.
const leaveTime = 5 * time.Second

// keep connects again whenever the controller is lost, until that takes too long or
// Disconnect was called.
func (c *directController) keep() {
	defer close(c.ended)
	for {
		select {
		case <-c.current.Done():
		case <-c.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
			defer cancel()
			err := c.current.Disconnect(ctx)
			c.mu.Lock()
			c.bye = err
			c.mu.Unlock()
			c.set(Dead, nil)
			return
		}
		why := c.current.Err()
		_ = c.current.Disconnect(c.ctx) // frees it; there is nobody to take leave of
		c.set(Connecting, why)
		if err := c.again(why); err != nil {
			c.set(Dead, err)
			return
		}
		c.set(Live, nil)
	}
}

// again tries to connect until that succeeds, CtrlLossTmo is over, or Disconnect was
// called.
func (c *directController) again(why error) error {
	var limit <-chan time.Time
	if tmo := c.path.Timers.CtrlLossTmo; tmo >= 0 {
		limit = time.After(tmo)
	}
	for {
		select {
		case <-limit:
			return fmt.Errorf("not connected again within %v: %w", c.path.Timers.CtrlLossTmo, why)
		case <-c.ctx.Done():
			return host.ErrClosed
		case <-time.After(c.path.Timers.ReconnectDelay):
		}
		if why = c.connect(c.ctx); why == nil {
			return nil
		}
		c.set(Connecting, why)
	}
}

// event notes that namespaces may have changed, and reads the list of those, so that
// the controller tells of the next change.
func (c *directController) event(e capsule.AsyncEvent) {
	if e.LID != capsule.LogChangedNamespaces {
		return
	}
	c.mu.Lock()
	current := c.current
	c.stale = true
	c.mu.Unlock()
	if current != nil {
		_ = current.LogPage(c.ctx, capsule.NSIDBroadcast, capsule.LogChangedNamespaces, 0, make([]byte, 4096))
	}
	c.sub.changed()
}

// namespaces are those of the current controller. One that has not changed keeps its
// store.
func (c *directController) namespaces(ctx context.Context) ([]Namespace, error) {
	c.looking.Lock()
	defer c.looking.Unlock()
	c.mu.Lock()
	current, open, stale := c.current, c.open, c.stale
	c.stale = false
	c.mu.Unlock()
	if !stale {
		return open, nil
	}
	now, err := look(ctx, current, open)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stale = true
		return nil, err
	}
	if c.current == current {
		c.open = now
	}
	return now, nil
}

// look opens the namespaces that are there, but for those that are open already.
func look(ctx context.Context, c *host.Controller, open []Namespace) (now []Namespace, err error) {
	ids, err := c.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		n, err := c.Namespace(ctx, id)
		if err != nil {
			return nil, err
		}
		fresh := Namespace{ID: id, Identifiers: n.Identifiers(), Metadata: int(n.Identify().Format().MS), Store: n,
			NewMemory: func(size int) (Memory, error) {
				b, err := c.NewBuffers(size)
				if err != nil {
					return nil, err
				}
				return b, nil
			}}
		for _, old := range open {
			if old.ID == id && old.Identifiers == fresh.Identifiers && old.Store.Info() == n.Info() {
				fresh = old
			}
		}
		now = append(now, fresh)
	}
	return now, nil
}
