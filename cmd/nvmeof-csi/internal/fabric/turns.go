package fabric

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A turns is a set of locks by name, which serialize connecting and disconnecting. If a target is away, a holder may
// keep its lock as long as a call may take; calls about other subsystems do not wait for it. The zero value is ready
// to use. Entries are never removed: a node uses few names.
type turns struct {
	mu sync.Mutex
	of map[string]*semaphore.Weighted // each of capacity 1
}

// take acquires the lock of a name, and returns the function that releases it.
func (t *turns) take(ctx context.Context, name string) (end func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*semaphore.Weighted{}
	}
	turn := t.of[name]
	if turn == nil {
		turn = semaphore.NewWeighted(1)
		t.of[name] = turn
	}
	t.mu.Unlock()
	if err := turn.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("another call for %s is in progress: %w", name, err)
	}
	return func() { turn.Release(1) }, nil
}

// takeOf acquires the lock of the name that named returns. The name may change during the wait: takeOf retries until
// named still returns it with the lock held.
func (t *turns) takeOf(ctx context.Context, named func() (string, error)) (name string, end func(), err error) {
	for {
		if name, err = named(); err != nil {
			return "", nil, err
		}
		if end, err = t.take(ctx, name); err != nil {
			return "", nil, err
		}
		now, err := named()
		if err == nil && now == name {
			return name, end, nil
		}
		end()
		if err != nil {
			return "", nil, err
		}
	}
}
