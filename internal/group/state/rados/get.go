package rados

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// errGone says that the object's counter is missing, with which the object is created.
var errGone = fmt.Errorf("the group's object has lost its revision counter: %w", unix.ENOENT)

// The number of entries of a page is chosen so that it has about this many bytes.
const (
	pageBytes = 8 << 20
	firstPage = 64
	lastPage  = 1000 // the cluster's own limit is 1024
)

const (
	// rounds is how often a read of several pages is tried. Each try has as many operations of the cluster as it has pages,
	// and one; and each of these its own limit of time.
	rounds = 3
	// maxAtOnce is how many bytes are read in one operation.
	maxAtOnce = 64 << 20
)

// Get implements [state.Store]. Heartbeats change the counter all the time, so several pages are seldom of one revision.
// Then they are read again, in one operation of the cluster.
func (s *Store) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	for range rounds {
		f, whole, err := s.pageByPage(ctx, valueKey(prefix))
		if err == nil && !whole && f.size <= maxAtOnce {
			f, whole, err = s.atOnce(ctx, valueKey(prefix), &f)
		}
		switch {
		case err != nil:
			return state.Snapshot{}, ofRead(err)
		case whole:
			return f.snapshot(), nil
		}
	}
	return state.Snapshot{}, fmt.Errorf("%w: what is under %q in the object of the group changed %d times while it was read", state.ErrUnavailable, prefix, rounds)
}

// A found is what was read under a prefix, and the counter at that time.
type found struct {
	revision state.Revision
	entries  []entry
	size     int // bytes of the values
	longest  int // number of entries of the longest page
}

func (f *found) snapshot() state.Snapshot {
	all := state.Snapshot{Revision: f.revision}
	for _, e := range f.entries {
		all.Entries = append(all.Entries, stored(e))
	}
	return all
}

func (f *found) add(entries []entry) (size int) {
	for _, e := range entries {
		size += len(e.value)
	}
	f.entries = append(f.entries, entries...)
	f.size += size
	f.longest = max(f.longest, len(entries))
	return size
}

// pageByPage reads all pages, and reports whether they are of one revision.
func (s *Store) pageByPage(ctx context.Context, prefix string) (f found, whole bool, err error) {
	for p := (page{prefix: prefix, most: firstPage}); ; {
		at, lists, err := s.readPages(ctx, p)
		if err != nil {
			return f, false, err
		}
		if p.after == "" {
			f.revision, whole = at, true
		}
		whole = whole && at == f.revision
		size := f.add(lists[0].entries)
		if !lists[0].more {
			return f, whole, nil
		}
		p.after = f.entries[len(f.entries)-1].key
		p.resize(size)
	}
}

// atOnce reads what was found before again, in one operation. The pages have room for a third more entries. It reports
// whether that was enough.
func (s *Store) atOnce(ctx context.Context, prefix string, before *found) (f found, whole bool, err error) {
	pages := []page{{prefix: prefix, most: lastPage}}
	step := max(before.longest*3/4, 1)
	for i := step; i < len(before.entries); i += step {
		pages = append(pages, page{prefix, before.entries[i-1].key, lastPage})
	}
	at, lists, err := s.readPages(ctx, pages...)
	if err != nil {
		return f, false, err
	}
	f.revision = at
	for i, l := range lists {
		if i+1 < len(pages) {
			l.end(pages[i+1].after)
		}
		if f.add(l.entries); l.more {
			return f, false, nil
		}
	}
	return f, true, nil
}

// end removes what follows a key, with which the page should end, and notes that nothing is missing before that.
func (l *listed) end(last string) {
	n := slices.IndexFunc(l.entries, func(e entry) bool { return e.key > last })
	switch {
	case n >= 0:
		l.entries, l.more = l.entries[:n], false
	case len(l.entries) > 0 && l.entries[len(l.entries)-1].key == last:
		l.more = false
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

// readPages reads pages and the counter.
func (s *Store) readPages(ctx context.Context, pages ...page) (state.Revision, []listed, error) {
	type answer struct {
		at    state.Revision
		lists []listed
	}
	a, err := ask(ctx, s, func() (answer, error) {
		named, lists, err := s.object.read([]string{counter}, pages...)
		return answer{revisionIn(named, counter), lists}, err
	})
	switch {
	case err != nil:
		return 0, nil, err
	case a.at == 0:
		return 0, nil, errGone
	}
	s.hint.Store(uint64(a.at))
	return a.at, a.lists, nil
}
