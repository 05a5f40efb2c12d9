// Package recent bounds how often something is read that costs others time.
package recent

import (
	"sync"
	"time"
)

// Interval is for how long what was read is not read again.
const Interval = time.Second

// A Reading is what was read last. The zero value has nothing yet. Any goroutine may use it.
type Reading[T any] struct {
	mu   sync.Mutex
	at   time.Time // zero: never
	last T
	err  error
}

// Get returns what was read in the last Interval, or else what read returns. Who asks meanwhile
// waits for the same. Nobody may change it.
func (r *Reading[T]) Get(read func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= Interval {
		r.last, r.err = read()
		r.at = now
	}
	return r.last, r.err
}
