package simulated

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Shared is a Store for blocking calls, with the clock of package time. It has no goroutines: each waiting call
// advances the store for all.
type Shared struct {
	mu    sync.Mutex
	store *Store
	heard map[Call]chan Reply
	moved chan struct{} // closed when the time of the next event may have changed
}

// Share returns s as a Shared. Do not use s directly any more.
func Share(s *Store) *Shared {
	return &Shared{store: s, heard: map[Call]chan Reply{}, moved: make(chan struct{})}
}

// Do calls f to inspect the store or to inject faults.
func (b *Shared) Do(f func(s *Store, now time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	f(b.store, time.Now())
	b.wake()
}

// Open adds a client, whose calls take at most limit.
func (b *Shared) Open(limit time.Duration) *Conn {
	c := &Conn{shared: b, limit: limit, closed: make(chan struct{})}
	b.Do(func(s *Store, _ time.Time) { c.Client = s.Join() })
	return c
}

func (b *Shared) wake() {
	close(b.moved)
	b.moved = make(chan struct{})
}

// advance executes what is due. A watch with an unread notice needs no other.
func (b *Shared) advance() {
	if at, ok := b.store.Next(); !ok || at.After(time.Now()) {
		return
	}
	for _, r := range b.store.Advance(time.Now()) {
		select {
		case b.heard[r.Call] <- r:
		default:
		}
	}
	b.wake()
}

// begin submits a call.
func (b *Shared) begin(submit func(s *Store, now time.Time) Call) (id Call, heard chan Reply) {
	heard = make(chan Reply, 1)
	b.Do(func(s *Store, now time.Time) {
		id = submit(s, now)
		b.heard[id] = heard
	})
	return id, heard
}

// end stops replies to a caller.
func (b *Shared) end(id Call) {
	b.Do(func(s *Store, _ time.Time) {
		s.Cancel(id)
		delete(b.heard, id)
	})
}

// until returns the time until the store must be advanced, and a channel that is closed when that has changed.
func (b *Shared) until() (wait time.Duration, moved chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	wait = time.Hour
	if at, ok := b.store.Next(); ok {
		wait = time.Until(at)
	}
	return wait, b.moved
}

// A Conn is a client of a Shared as a state.Store.
type Conn struct {
	Client Client
	shared *Shared
	limit  time.Duration
	once   sync.Once
	closed chan struct{}
}

var _ state.Store = (*Conn)(nil)

var errClosed = fmt.Errorf("%w: the connection to it is closed", state.ErrUnavailable)

// wait returns the next reply, or the error of the context or of a closed store.
func (c *Conn) wait(ctx context.Context, heard chan Reply) (Reply, error) {
	for {
		wait, moved := c.shared.until()
		timer := time.NewTimer(wait)
		select {
		case r := <-heard:
			return r, r.Err
		default:
		}
		select {
		case r := <-heard:
			return r, r.Err
		case <-ctx.Done():
			return Reply{}, ctx.Err()
		case <-c.closed:
			return Reply{}, errClosed
		case <-timer.C:
		case <-moved:
			timer.Stop()
		}
	}
}

// ready returns an error if a call need not begin.
func (c *Conn) ready(ctx context.Context) error {
	select {
	case <-c.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// Get implements state.Store.
func (c *Conn) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	if err := c.ready(ctx); err != nil {
		return state.Snapshot{}, err
	}
	id, heard := c.shared.begin(func(s *Store, now time.Time) Call { return s.Get(now, c.Client, prefix, c.limit) })
	defer c.shared.end(id)
	r, err := c.wait(ctx, heard)
	return r.Snapshot, err
}

// Txn implements state.Store.
func (c *Conn) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	if err := c.ready(ctx); err != nil {
		return state.Result{}, err
	}
	id, heard := c.shared.begin(func(s *Store, now time.Time) Call { return s.Txn(now, c.Client, t, c.limit) })
	defer c.shared.end(id)
	r, err := c.wait(ctx, heard)
	if err != nil && r.Err == nil && !errors.Is(err, state.ErrUnknown) {
		err = fmt.Errorf("%w: %w", state.ErrUnknown, err)
	}
	return r.Result, err
}

// Watch implements state.Store.
func (c *Conn) Watch(ctx context.Context, prefix string, changed func()) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	id, heard := c.shared.begin(func(s *Store, now time.Time) Call { return s.Watch(now, c.Client, prefix) })
	defer c.shared.end(id)
	for {
		if _, err := c.wait(ctx, heard); err != nil {
			return err
		}
		changed()
	}
}

// Close implements state.Store.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.shared.Do(func(s *Store, _ time.Time) { s.Leave(c.Client) })
	})
	return nil
}
