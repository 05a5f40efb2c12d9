package control

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// How long a file system or device may take to open, examine or close what a namespace
// exports. Of one that hangs a start makes only that namespace wait; a change fails, and
// allows more time, since to make a large file may take a while.
const (
	startTimeout  = 5 * time.Second
	changeTimeout = 10 * time.Second
	// lessTime divides the time of what comes after the first that hangs: a
	// hundred files of one file system do not take a hundred times as long.
	lessTime = 50
)

// A HungError is a file system or device that does not answer.
type HungError struct {
	Path  config.Path
	Since time.Time // when it was last asked something
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s does not answer since %s: see what is wrong with its file system or device", e.Path, e.Since.Format(time.TimeOnly))
}

// A reaching is a call for a path that took longer than it may, and is still under way.
type reaching struct {
	since time.Time
	ended chan struct{}
}

// reach returns what f does, which asks the file system or device of a path. If that hangs
// the error is a [HungError], now and, at once, for every other call for the path, until f
// has returned; then late is called with its result, in another goroutine, unless f failed
// or late is nil.
func reach[T any](s *stores, p config.Path, f func() (T, error), late func(T)) (result T, err error) {
	if p == "" {
		return f() // memory
	}
	if before := s.reaching[p]; before != nil {
		select {
		case <-before.ended:
			delete(s.reaching, p)
		default:
			return result, &HungError{p, before.since}
		}
	}
	type answer struct {
		result T
		err    error
	}
	in, left, r := make(chan answer), make(chan struct{}), &reaching{time.Now(), make(chan struct{})}
	s.calls.Go(func() { // ends when f does
		var a answer
		a.result, a.err = f()
		select {
		case in <- a:
		case <-left:
			close(r.ended)
			if a.err == nil && late != nil {
				late(a.result)
			}
		}
	})
	timeout := s.timeout
	if s.hung {
		timeout /= lessTime
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case a := <-in:
		return a.result, a.err
	case <-timer.C:
	}
	close(left)
	s.reaching[p], s.hung = r, true
	return result, &HungError{p, r.since}
}

// ask is reach without a result.
func (s *stores) ask(p config.Path, f func() error) error {
	_, err := reach(s, p, func() (struct{}, error) { return struct{}{}, f() }, nil)
	return err
}

// begin begins a change, or an attempt to have what is waited for: so long what hangs is
// waited for.
func (s *stores) begin(timeout time.Duration) { s.timeout, s.hung = timeout, false }
