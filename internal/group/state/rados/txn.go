package rados

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A turn belongs to one transaction at a time. The others wait in the order in which they came.
type turn chan struct{} // has room for one

// take waits for a turn.
func (s *Store) take(ctx context.Context, t turn) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return notSent{ctx.Err()}
	case <-s.done:
		return notSent{errClosed}
	}
}

func (t turn) end() { <-t }

// Txn implements [state.Store]. Transactions of one store do not compete with each other. An urgent one waits for at most
// one attempt of another that is not.
func (s *Store) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	if err := t.Check(); err != nil {
		return state.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	until := s.turn // that the transaction ends
	if !t.Urgent {
		until = s.line
	}
	if err := s.take(ctx, until); err != nil {
		return state.Result{}, ofRead(err)
	}
	defer until.end()
	for was := first; ; {
		at, err := s.attempt(ctx, &t, was)
		if err == nil {
			return state.Result{Done: true, Revision: at + 1}, nil
		}
		if !errors.Is(err, unix.ECANCELED) {
			return state.Result{}, ofWrite(err)
		}
		now, failed, err := s.compare(ctx, t.If)
		repaired := false
		if err == nil && len(failed) > 0 {
			repaired, err = s.repair(ctx, failed)
		}
		switch {
		case err != nil:
			return state.Result{}, ofRead(err)
		case len(failed) > 0 && !repaired:
			return state.Result{Revision: now}, nil
		}
		was = now // after a repair the next attempt finds different revisions
	}
}

// attempt calls try in a turn, and returns the counter with which. It was at least was.
func (s *Store) attempt(ctx context.Context, t *state.Txn, was state.Revision) (at state.Revision, err error) {
	if !t.Urgent {
		if err := s.take(ctx, s.turn); err != nil {
			return was, err
		}
		defer s.turn.end()
	}
	was = max(was, state.Revision(s.hint.Load()))
	return was, s.try(ctx, t, was)
}

// try executes a transaction if the counter has the given value.
func (s *Store) try(ctx context.Context, t *state.Txn, was state.Revision) error {
	steps := stepsOf(t, was)
	_, err := ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.object.write(steps) })
	if err == nil {
		s.hint.Store(uint64(was + 1))
		// If a message is lost, the next poll of the counter reports the change.
		_, _ = ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.object.notify(messageOf(t, was+1)) })
	}
	return err
}

func stepsOf(t *state.Txn, was state.Revision) []step {
	next := bytesOf(was + 1)
	steps := []step{{stepCompare, counter, bytesOf(was)}}
	for _, c := range t.If {
		steps = append(steps, step{stepCompare, revisionKey(c.Key), bytesOf(c.Revision)})
	}
	steps = append(steps, step{stepSet, counter, next})
	for _, o := range t.Then {
		if o.Delete {
			steps = append(steps, step{stepRemove, valueKey(o.Key), nil}, step{stepRemove, revisionKey(o.Key), nil})
			continue
		}
		value := append(next[:8:8], o.Value...)
		steps = append(steps, step{stepSet, valueKey(o.Key), value}, step{stepSet, revisionKey(o.Key), next})
	}
	return steps
}

// compare reads the counter, and returns the comparisons that do not hold at that revision.
func (s *Store) compare(ctx context.Context, all []state.Compare) (now state.Revision, failed []state.Compare, err error) {
	keys := []string{counter}
	for _, c := range all {
		keys = append(keys, revisionKey(c.Key))
	}
	entries, err := ask(ctx, s, func() ([]entry, error) {
		named, _, err := s.object.read(keys)
		return named, err
	})
	if err != nil {
		return 0, nil, err
	}
	if now = revisionIn(entries, counter); now == 0 {
		return 0, nil, errGone
	}
	s.hint.Store(uint64(now))
	for _, c := range all {
		if revisionIn(entries, revisionKey(c.Key)) != c.Revision {
			failed = append(failed, c)
		}
	}
	return now, failed, nil
}
