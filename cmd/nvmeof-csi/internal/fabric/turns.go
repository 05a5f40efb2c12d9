package fabric

import (
	"context"
	"fmt"
	"sync"
)

// A turns is a set of locks by name, for what is connected and disconnected one at a time. Where a target is away that
// takes as long as a call may, and those of other subsystems do not wait for it. The zero value is ready. There is an
// entry for each name that was ever taken, of which a node has few.
type turns struct {
	mu sync.Mutex
	of map[string]chan struct{} // each has room for one, which who has the turn has put in
}

// take waits for the turn of a name, and returns what ends it.
func (t *turns) take(ctx context.Context, name string) (end func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]chan struct{}{}
	}
	turn := t.of[name]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.of[name] = turn
	}
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another call about %s is under way: %w", name, context.Cause(ctx))
	}
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
