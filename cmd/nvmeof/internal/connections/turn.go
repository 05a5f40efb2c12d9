package connections

import "context"

// A turn is what one has at a time who waits for a target meanwhile: a mutex that can be waited for
// as long as a context lasts.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn. It returns an error if ctx ends before.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give ends it.
func (t turn) give() { <-t }
