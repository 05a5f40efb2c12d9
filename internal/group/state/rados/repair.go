package rados

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// repair sets the revisions of keys to those that their values contain, and reports whether any differed. They differ
// after a value was removed or put by hand, and then no comparison with what readers find would ever hold. An intact
// group need not be checked, so repair is called only when a comparison does not hold.
func (s *Store) repair(ctx context.Context, all []state.Compare) (repaired bool, err error) {
	keys := []string{counter}
	for _, c := range all {
		keys = append(keys, revisionKey(c.Key), valueKey(c.Key))
	}
	entries, err := ask(ctx, s, func() ([]entry, error) {
		named, _, err := s.object.read(keys)
		return named, err
	})
	if err != nil {
		return false, err
	}
	now := revisionIn(entries, counter)
	if now == 0 {
		return false, errGone
	}
	steps := []step{{stepCompare, counter, bytesOf(now)}, {stepSet, counter, bytesOf(now + 1)}}
	for _, c := range all {
		key := revisionKey(c.Key)
		switch r := storedIn(entries, valueKey(c.Key)); {
		case r == revisionIn(entries, key):
		case r == 0:
			steps = append(steps, step{stepRemove, key, nil})
		default:
			steps = append(steps, step{stepSet, key, bytesOf(r)})
		}
	}
	if len(steps) == 2 {
		return false, nil
	}
	_, err = ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.object.write(steps) })
	if errors.Is(err, unix.ECANCELED) {
		err = nil // another client was faster, perhaps with the same change
	}
	return err == nil, err
}
