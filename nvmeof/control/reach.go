package control

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// How long a file system or device may take to open, examine or close what a namespace
// exports, or to read or write a file that the document names. Of one that hangs a start makes only that namespace wait; a change fails, and
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

	refused bool // something else is under way for the path
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s does not answer since %s: see what is wrong with its file system or device", e.Path, e.Since.Format(time.TimeOnly))
}

// A reaching is a call for a path that took longer than it may, and is still under way.
type reaching struct {
	since time.Time
	ended chan struct{}
}

// A reacher asks file systems and devices, each no longer than it may take. The zero value is
// ready for begin.
type reacher struct {
	calls sync.WaitGroup // for which nobody waits but tests: one may hang

	mu       sync.Mutex // guards what follows, and is not held while something is asked
	reaching map[config.Path]*reaching
	timeout  time.Duration
	hung     bool          // something has, since begin
	record   time.Duration // for a record to be saved at any time, whatever hangs; 0: as for all
}

// reach returns what f does, which asks the file system or device of a path. If that hangs
// the error is a [HungError], now and, at once, for every other call for the path, until f
// has returned, and late, which is called with its result, in another goroutine, unless f failed
// or late is nil.
func reach[T any](r *reacher, p config.Path, f func() (T, error), late func(T)) (result T, err error) {
	return reachFor(r, r.time(), p, f, late)
}

// time is how long one call may take now.
func (r *reacher) time() time.Duration { return r.timeOf(0) }

// timeOf is that of a call which may take so long otherwise; 0: as long as all.
func (r *reacher) timeOf(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	most = cmp.Or(most, r.timeout)
	if r.hung {
		return most / lessTime
	}
	return most
}

// reachFor is reach where f has that time.
func reachFor[T any](r *reacher, timeout time.Duration, p config.Path, f func() (T, error), late func(T)) (result T, err error) {
	if p == "" {
		return f() // memory
	}
	if before := r.under(p); before != nil {
		return result, &HungError{Path: p, Since: before.since, refused: true}
	}
	type answer struct {
		result T
		err    error
	}
	in, left, now := make(chan answer), make(chan struct{}), &reaching{time.Now(), make(chan struct{})}
	r.calls.Go(func() { // ends when f does
		var a answer
		a.result, a.err = f()
		select {
		case in <- a:
		case <-left:
			if a.err == nil && late != nil {
				late(a.result)
			}
			close(now.ended)
		}
	})
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case a := <-in:
		return a.result, a.err
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(left)
	if r.reaching == nil {
		r.reaching = map[config.Path]*reaching{}
	}
	r.reaching[p], r.hung = now, true
	return result, &HungError{Path: p, Since: now.since}
}

// under is the call for a path that is still under way; nil: there is none.
func (r *reacher) under(p config.Path) *reaching {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.reaching[p]
	if before == nil {
		return nil
	}
	select {
	case <-before.ended:
		delete(r.reaching, p)
		return nil
	default:
		return before
	}
}

// recordTime is how long it may take now to save a record.
func (r *reacher) recordTime() time.Duration {
	r.mu.Lock()
	record := r.record
	r.mu.Unlock()
	return cmp.Or(record, r.time())
}

// setRecordTime sets it.
func (r *reacher) setRecordTime(timeout time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = timeout
}

// ask is reach without a result.
func (r *reacher) ask(p config.Path, f func() error) error {
	_, err := reach(r, p, func() (struct{}, error) { return struct{}{}, f() }, nil)
	return err
}

// last is ask of what has to be done for a path whatever hangs: what was opened has to be
// closed, or it could not be opened again.
func (r *reacher) last(p config.Path, f func() error) error {
	err := r.ask(p, f)
	if refused(err) {
		r.after(p, func() { _ = f() }) // who could be told has been told that it hangs
	}
	return err
}

// after has f called when what is under way for a path has returned. Until f has, too, nothing
// else is done for the path.
func (r *reacher) after(p config.Path, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.reaching[p]
	if before == nil { // it has just ended
		before = &reaching{time.Now(), make(chan struct{})}
		close(before.ended)
	}
	now := &reaching{before.since, make(chan struct{})}
	r.reaching[p] = now
	r.calls.Go(func() { // ends when the file system has answered
		defer close(now.ended)
		<-before.ended
		f()
	})
}

// refused reports whether an error says that something was not begun, since its path hangs.
func refused(err error) bool {
	var hung *HungError
	return errors.As(err, &hung) && hung.refused
}

// begin begins a change, or an attempt to have what is waited for: so long what hangs is
// waited for.
func (r *reacher) begin(timeout time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeout, r.hung = timeout, false
}
