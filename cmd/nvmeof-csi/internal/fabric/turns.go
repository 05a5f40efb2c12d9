package fabric

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A turns is a set of locks by name, for what is connected and disconnected one at a time. Where a target is away that
// takes as long as a call may, and those of other subsystems do not wait for it. The zero value is ready. There is an
// entry for each name that was ever taken, of which a node has few.
type turns struct {
	mu sync.Mutex
	of map[string]*semaphore.Weighted // each of one
}

// take waits for the turn of a name, and returns what ends it.
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
		return nil, fmt.Errorf("another call about %s is under way: %w", name, err)
	}
	return func() { turn.Release(1) }, nil
}

// takeOf waits for the turn of what a function names, as that is once it is had: it may have changed meanwhile.
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
