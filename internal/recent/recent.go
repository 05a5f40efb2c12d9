// Package recent limits how often expensive readings are made.
package recent

import (
	"sync"
	"time"
)

// Interval is how long a reading is reused.
const Interval = time.Second

// A Reading is the last reading. The zero value has none. Any goroutine may use it.
type Reading[T any] struct {
	mu   sync.Mutex
	at   time.Time // zero: never
	last T
	err  error
}

// Get returns the reading of the last Interval, or otherwise calls read. Concurrent callers wait for the same reading.
// Do not modify the result.
func (r *Reading[T]) Get(read func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= Interval {
		r.last, r.err = read()
		r.at = now
	}
	return r.last, r.err
}
