package rados

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// mend makes the revisions of keys those that their values have, and reports whether any was another: somebody has removed a value
// by hand, or put one, and no comparison with what readers find would ever hold. The values of a group that is well need not be
// read for that: it is called when a comparison does not hold.
func (s *Store) mend(ctx context.Context, all []state.Compare) (mended bool, err error) {
	keys := []string{counter}
	for _, c := range all {
		keys = append(keys, revisionKey(c.Key), valueKey(c.Key))
	}
	entries, err := ask(ctx, s, func() ([]entry, error) {
		named, _, _, err := s.object.read(keys, page{})
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
		switch r := revisionIn(entries, valueKey(c.Key)); {
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
		err = nil // somebody was faster, perhaps with the same
	}
	return err == nil, err
}
