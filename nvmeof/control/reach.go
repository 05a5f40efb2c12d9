package control

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Time limits for file systems and devices to open, examine or close a store, or to read or write a file that the
// document names. At a start, a namespace whose store exceeds the limit waits. A change fails; its limit is higher,
// since creating a large file can take a while.
const (
	startTimeout  = 5 * time.Second
	changeTimeout = 10 * time.Second
	// lessTime divides the limit after the first one that hangs: a hundred files of one file system do not take a
	// hundred times as long.
	lessTime = 50
)

// A HungError reports that a file system or device does not answer.
type HungError struct {
	Path  config.Path
	Since time.Time // start of the call that hangs

	refused bool // not called, since another call for the path hangs
	making  bool // the call allocates a file
}

func (e *HungError) Error() string {
	why := fmt.Sprintf("%s has not answered since %s: check its file system or device", e.Path, e.Since.Format(time.TimeOnly))
	if e.making {
		why += "; if it is large and is still being allocated, try again when that is complete"
	}
	return why
}

// A reaching is a call for a path that has exceeded its limit and is still in progress.
type reaching struct {
	since time.Time
	ended chan struct{}
}

// A reacher calls functions that access file systems and devices, with time limits. The zero value is ready for
// begin.
type reacher struct {
	calls sync.WaitGroup // only tests wait for it: a call may hang forever

	mu       sync.Mutex // guards the following; not held during a call
	reaching map[config.Path]*reaching
	making   map[config.Path]bool // files that are being allocated
	timeout  time.Duration
	hung     bool          // a call has exceeded its limit since begin
	record   time.Duration // limit for saving a record, even if others hang; 0: as for other calls
}

// reach calls f, which accesses the file system or device of a path, and returns its results. If f exceeds the time
// limit, the error is a [HungError]. Until f has returned, every other call for the path fails with that error at
// once. If f then succeeds, late is called with its result from another goroutine, unless late is nil, before other
// calls are possible.
func reach[T any](r *reacher, p config.Path, f func() (T, error), late func(T)) (result T, err error) {
	return reachFor(r, r.time(), p, f, late)
}

// time returns the present time limit of a call.
func (r *reacher) time() time.Duration { return r.timeOf(0) }

// timeOf returns the present time limit of a call whose limit is most if nothing hangs; 0: the usual limit.
func (r *reacher) timeOf(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	most = cmp.Or(most, r.timeout)
	if r.hung {
		return most / lessTime
	}
	return most
}

// reachFor is reach with the given time limit.
func reachFor[T any](r *reacher, timeout time.Duration, p config.Path, f func() (T, error), late func(T)) (result T, err error) {
	if p == "" {
		return f() // memory cannot hang
	}
	if before := r.under(p); before != nil {
		return result, &HungError{Path: p, Since: before.since, refused: true, making: r.makes(p)}
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
	return result, &HungError{Path: p, Since: now.since, making: r.making[p]}
}

// under returns the call for a path that has exceeded its limit and is still in progress, or nil.
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

// make says that the file of a namespace is being allocated, until made is called, unless it is there already. A thin
// file is not allocated.
func (r *reacher) make(n *config.Namespace, there bool) (made func()) {
	if there || n.File == nil || n.File.Size == 0 || n.File.Thin {
		return func() {}
	}
	set := func(is bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.making == nil {
			r.making = map[config.Path]bool{}
		}
		if r.making[n.Path()] = is; !is {
			delete(r.making, n.Path())
		}
	}
	set(true)
	return func() { set(false) }
}

// makes reports whether the file at a path is being allocated.
func (r *reacher) makes(p config.Path) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.making[p]
}

// recordTime returns the present time limit for saving a record.
func (r *reacher) recordTime() time.Duration {
	r.mu.Lock()
	record := r.record
	r.mu.Unlock()
	return cmp.Or(record, r.time())
}

// setRecordTime sets the time limit for saving a record.
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

// last is ask for a function that must be called even if the path hangs: a store that was opened must be closed, or
// it could not be opened again.
func (r *reacher) last(p config.Path, f func() error) error {
	err := r.ask(p, f)
	if refused(err) {
		r.after(p, func() { _ = f() }) // the caller has been told that the path hangs
	}
	return err
}

// after calls f when the call in progress for a path has returned. Other calls for the path fail until f has
// returned too.
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

// refused reports whether an error says that a function was not called, since its path hangs.
func refused(err error) bool {
	var hung *HungError
	return errors.As(err, &hung) && hung.refused
}

// begin begins a change, or a retry for objects that wait, and sets the time limit of its calls.
func (r *reacher) begin(timeout time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeout, r.hung = timeout, false
}
