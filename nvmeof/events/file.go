package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// A file is where the events are written. All but what begins it belongs to one goroutine.
type file struct {
	f       storage
	written uint64 // the last event that was
	failing bool
	cancel  context.CancelFunc
	ended   chan struct{}
}

// storage is what a file needs of an [os.File].
type storage interface {
	io.WriterAt
	io.Closer
	Sync() error
}

const (
	gatherTime = 100 * time.Millisecond // that events are written together
	closeTime  = 3 * time.Second        // that a file system may take at the end
)

// Open returns the log of a file, which is created if it is not there. One process at a
// time has it. With another number of entries than before the file is written anew.
func Open(path string, cfg Config) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	l, err := load(f, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("events in %s: %w", path, err), f.Close())
	}
	l.old = l.seq
	ctx, cancel := context.WithCancel(context.Background())
	l.file = &file{f: f, written: l.seq, cancel: cancel, ended: make(chan struct{})}
	go l.write(ctx) // ends with Close
	return l, nil
}

// load reads a file, of which nobody else may be the owner.
func load(f *os.File, cfg Config) (*Log, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file: name another")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another target uses it: stop that, or name another file")
		}
		return nil, err
	}
	l := New(cfg)
	text, err := io.ReadAll(io.LimitReader(f, (MaxEntries+1)*recordSize))
	if err != nil {
		return nil, err
	}
	fresh := info.Size() == int64(len(text)) && len(bytesOf(text)) == 0 // of a longer one the rest was not read
	var entries int
	var known bool
	if len(text) >= recordSize {
		var id string
		if id, entries, known = decodeHeader(text[:recordSize]); known {
			l.id = id
		}
	}
	switch {
	case known && entries == l.cfg.Entries:
		l.restore(text[recordSize:])
		return l, nil
	case known:
		l.adopt(text[recordSize:])
	case !fresh:
		return nil, errors.New("it is not a log of events, or its first line is damaged: name another file, or remove it")
	}
	return l, l.rewrite(f)
}

// bytesOf is what a file has but zeroes, which a power failure leaves of one that was just made.
func bytesOf(text []byte) []byte {
	return slices.DeleteFunc(slices.Clone(text), func(b byte) bool { return b == 0 })
}

// read returns the event of a record, and counts those that are damaged.
func (l *Log) read(b []byte) (e Event, ok bool) {
	if e, ok = decode(b); !ok && len(bytesOf(b)) > 0 {
		l.stats.Damaged++
	}
	return e, ok
}

// restore takes over the records of a file, each at its place. Called before the log is
// anybody's.
func (l *Log) restore(text []byte) {
	var newest [parts]uint64
	for i, b := range slices.Collect(slices.Chunk(text, recordSize)) {
		p := i / (l.cfg.Entries / int(parts))
		e, ok := l.read(b)
		if !ok || part(p) != e.Kind.part() {
			continue
		}
		r, at := &l.rings[p], i%(l.cfg.Entries/int(parts))
		r.entries[at] = e
		if e.Seq > newest[p] {
			newest[p], r.n = e.Seq, uint64(at)+1
		}
		l.seq = max(l.seq, e.Seq)
	}
}

// adopt takes over the records of a file that has another number of them.
func (l *Log) adopt(text []byte) {
	var all []Event
	for b := range slices.Chunk(text, recordSize) {
		if e, ok := l.read(b); ok {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range all {
		r := &l.rings[e.Kind.part()]
		r.entries[r.n%uint64(len(r.entries))] = e
		r.n++
		l.seq = max(l.seq, e.Seq)
	}
}

// rewrite makes a file anew of what the log has.
func (l *Log) rewrite(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(encodeHeader(l.id, l.cfg.Entries), 0); err != nil {
		return err
	}
	if err := put(f, l.placed(0)); err != nil {
		return err
	}
	return f.Sync()
}

// A placedEvent is an event and the offset of its record.
type placedEvent struct {
	Event
	offset int64
}

// placed are the events with a higher number, in order.
func (l *Log) placed(seq uint64) (out []placedEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := 1
	for i := range l.rings {
		for at, e := range l.rings[i].entries {
			if e.Seq > seq {
				out = append(out, placedEvent{e, int64(first+at) * recordSize})
			}
		}
		first += len(l.rings[i].entries)
	}
	slices.SortFunc(out, func(a, b placedEvent) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

func put(f io.WriterAt, list []placedEvent) error {
	for _, e := range list {
		if _, err := f.WriteAt(encode(e.Event), e.offset); err != nil {
			return err
		}
	}
	return nil
}

// write writes events as they come, until ctx ends, and then what is left.
func (l *Log) write(ctx context.Context) {
	defer close(l.file.ended)
	for l.Wait(ctx, l.file.written) == nil {
		select {
		case <-time.After(gatherTime):
		case <-ctx.Done():
		}
		l.writeNow()
	}
	l.writeNow()
}

// writeNow writes what is not written yet. What fails is not tried again: its place may be
// another event's by then.
func (l *Log) writeNow() {
	f := l.file
	list := l.placed(f.written)
	if len(list) == 0 {
		return
	}
	last := list[len(list)-1].Seq
	lost := last - f.written - uint64(len(list)) // replaced while the file hung
	err := put(f.f, list)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		lost += uint64(len(list))
	}
	f.written = last
	l.mu.Lock()
	l.stats.Unwritten += lost
	l.mu.Unlock()
	if was := f.failing; was != (err != nil) {
		f.failing = !was
		if l.cfg.Failed != nil {
			l.cfg.Failed(err)
		}
	}
}

// Close records what was counted only, and writes the file. A file system that hangs is
// left after 3 s. Events that are recorded later are not written.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.flush(l.cfg.Now().Add(foldTime))
	l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	l.file.cancel()
	select {
	case <-l.file.ended:
		return l.file.f.Close()
	case <-time.After(closeTime):
		return errors.New("events: the file does not answer, and may lack the last ones: see what is wrong with its file system")
	}
}
