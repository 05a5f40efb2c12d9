package rados

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

const (
	// closeTime is how long Close waits for a cluster that does not answer.
	closeTime = 5 * time.Second

	// pollTime is how often the counter is read: a change is noticed within a second.
	pollTime = 700 * time.Millisecond
)

// first is the revision of a new group.
const first state.Revision = 1

// errClosed is the error of a closed store.
var errClosed = errors.New("group store: closed")

// Store implements [state.Store].
type Store struct {
	object object
	hint   atomic.Uint64 // the revision that is probably the newest
	line   turn          // of the transactions that are not urgent
	turn   turn          // to write; at most one of the line waits for it
	done   chan struct{} // closed by Close

	limit               time.Duration // of a transaction, with all of its attempts
	closeTime, pollTime time.Duration

	mu       sync.Mutex
	closed   bool
	calls    sync.WaitGroup // calls of the library; none is added once closed
	watchers map[*watcher]bool
	follows  bool
	watching watch // may be nil
}

// Open opens the state of a group. A group that the cluster does not have is created empty.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("group store in Ceph: %w", err)
	}
	return open(ctx, cfg, dial)
}

func open(ctx context.Context, cfg Config, dial dialer) (*Store, error) {
	type dialed struct {
		o   object
		err error
	}
	ended := make(chan dialed)
	left := make(chan struct{})
	go func() { // ends when the cluster answers, or its client's time has passed
		o, err := dialWhole(dial, &cfg)
		select {
		case ended <- dialed{o, err}:
		case <-left:
			if err == nil {
				o.close()
			}
		}
	}()
	select {
	case d := <-ended:
		if d.err != nil {
			return nil, fmt.Errorf("store of group %s in pool %s: %w", cfg.Group, cfg.Pool, d.err)
		}
		return newStore(d.o, 2*cfg.timeout()), nil
	case <-ctx.Done():
		close(left)
		return nil, fmt.Errorf("store of group %s in pool %s: %w: %w", cfg.Group, cfg.Pool, state.ErrUnavailable, ctx.Err())
	}
}

// dialWhole opens an object that has the counter.
func dialWhole(dial dialer, cfg *Config) (object, error) {
	o, err := dial(cfg, []step{{stepSet, counter, bytesOf(first)}})
	if err != nil {
		return nil, err
	}
	named, _, err := o.read([]string{counter})
	if err == nil && revisionIn(named, counter) == 0 {
		err = errGone
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func newStore(o object, limit time.Duration) *Store {
	return &Store{object: o, limit: limit, line: make(turn, 1), turn: make(turn, 1), done: make(chan struct{}),
		closeTime: closeTime, pollTime: pollTime, watchers: make(map[*watcher]bool)}
}

// enter reports whether the library may be called. If so, the caller must call s.calls.Done afterwards.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.calls.Add(1)
	}
	return !s.closed
}

// ask calls f, which calls the library. It returns when f returns, or when the context or the store ends: then f
// continues, and its result is lost.
func ask[T any](ctx context.Context, s *Store, f func() (T, error)) (result T, err error) {
	type outcome struct {
		result T
		err    error
	}
	if err := ctx.Err(); err != nil {
		return result, notSent{err}
	}
	if !s.enter() {
		return result, notSent{errClosed}
	}
	ended := make(chan outcome, 1)
	go func() { // ends when the cluster answers, or its client's time has passed
		defer s.calls.Done()
		r, err := f()
		ended <- outcome{r, err}
	}()
	select {
	case o := <-ended:
		return o.result, o.err
	case <-ctx.Done():
		return result, ctx.Err()
	case <-s.done:
		return result, errClosed
	}
}

// notSent wraps the error of a call that did not reach the library.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// definite reports whether the cluster has rejected an operation, so that it will not be executed. After other errors
// that is unknown.
func definite(err error) bool {
	var errno unix.Errno
	if errors.As(err, &notSent{}) {
		return true
	}
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.ENOENT, unix.EPERM, unix.EACCES, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSPC, unix.EDQUOT, unix.EFBIG,
		unix.E2BIG, unix.EMSGSIZE, unix.EROFS, unix.ECANCELED:
		return true
	}
	return false
}

// explain returns the error for a rejected operation with its meaning.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the group's object or its pool was removed: %w", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the pool cannot store keys (omap): use a replicated pool: %w", err)
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: its capabilities need osd 'allow rwx pool=POOL' (ceph auth get): %w", state.ErrRefused, err)
	case errors.Is(err, errClosed) || errors.As(err, &notSent{}):
		return fmt.Errorf("%w: %w", state.ErrUnavailable, err)
	}
	return fmt.Errorf("the Ceph cluster refuses the request: %w", err)
}

// ofRead returns the error of a call that changes nothing.
func ofRead(err error) error {
	if definite(err) {
		return explain(err)
	}
	return fmt.Errorf("%w: %w", state.ErrUnavailable, err)
}

// ofWrite returns the error of a call that may have changed something.
func ofWrite(err error) error {
	if definite(err) {
		return explain(err)
	}
	return fmt.Errorf("%w: %w", state.ErrUnknown, err)
}

// Close implements [state.Store]. It waits a few seconds for a cluster that does not answer; the client ends when the
// cluster answers.
func (s *Store) Close() error {
	if !s.end() {
		return nil
	}
	ended := make(chan struct{})
	go func() { // ends when the cluster answers, or its client's time has passed
		s.calls.Wait()
		s.object.close()
		close(ended)
	}()
	timer := time.NewTimer(s.closeTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	return nil
}

// end ends the calls in progress. It returns false if it was called before.
func (s *Store) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	close(s.done)
	if s.watching != nil {
		s.watching.wake()
	}
	return true
}
