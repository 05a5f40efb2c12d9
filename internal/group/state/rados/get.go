package rados

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// errGone says that the object's counter is missing, with which the object is created.
var errGone = fmt.Errorf("the object of the group has lost its counter: %w", unix.ENOENT)

// The number of entries of a page is chosen so that it has about this many bytes.
const (
	pageBytes = 8 << 20
	firstPage = 64
	lastPage  = 1000 // the cluster's own limit is 1024
)

// Get implements [state.Store].
func (s *Store) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	p := page{prefix: valueKey(prefix), most: firstPage}
	for {
		snapshot, whole, err := s.snapshot(ctx, &p)
		if err != nil {
			return state.Snapshot{}, ofRead(err)
		}
		if whole {
			return snapshot, nil
		}
	}
}

// snapshot reads all pages, and reports whether they are of one revision. p keeps the number of entries that fitted for
// the next time.
func (s *Store) snapshot(ctx context.Context, p *page) (state.Snapshot, bool, error) {
	var all state.Snapshot
	for p.after = ""; ; {
		found, err := s.readPage(ctx, *p)
		if err != nil {
			return state.Snapshot{}, false, err
		}
		if all.Revision == 0 {
			all.Revision = found.revision
		}
		if found.revision != all.Revision {
			return state.Snapshot{}, false, nil
		}
		size := 0
		for _, e := range found.entries {
			size += len(e.value)
			all.Entries = append(all.Entries, stored(e))
		}
		if !found.more {
			return all, true, nil
		}
		p.after = found.entries[len(found.entries)-1].key
		p.resize(size)
	}
}

// resize increases the number of entries after a small page and decreases it after a large one.
func (p *page) resize(size int) {
	switch {
	case size < pageBytes/2:
		p.most = min(2*p.most, lastPage)
	case size > pageBytes:
		p.most = max(p.most/2, 8)
	}
}

// A found is a page and the counter at that time.
type found struct {
	revision state.Revision
	entries  []entry
	more     bool
}

func (s *Store) readPage(ctx context.Context, p page) (found, error) {
	f, err := ask(ctx, s, func() (found, error) {
		named, listed, more, err := s.object.read([]string{counter}, p)
		return found{revisionIn(named, counter), listed, more}, err
	})
	if err == nil && f.revision == 0 {
		err = errGone
	}
	s.hint.Store(uint64(f.revision))
	return f, err
}
