package events

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
)

// A file is the file of a log. After Open only the log's goroutine uses it.
type file struct {
	f       storage
	path    string // empty: not in a file system that others can change
	written uint64 // number of the last event that was written
	runs    []byte // record of the runs, until it is written
	failing bool
	end     int64 // length when it was last checked
	cancel  context.CancelFunc
	ended   chan struct{}
}

// storage is the part of [os.File] that a file uses.
type storage interface {
	io.WriterAt
	io.Closer
	Sync() error
}

const (
	gatherTime = 100 * time.Millisecond // how long events are gathered before a write
	closeTime  = 3 * time.Second        // how long Close waits for the file system
)

// Open opens the log in a file, and creates the file if it does not exist. Only one process at a time can open it
// ([ErrInUse]). If the number of entries has changed, a new file replaces the old one atomically: after a crash
// either is there as a whole.
func Open(path string, cfg Config) (*Log, error) {
	f, err := openLocked(path)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	l, entries, err := load(f, cfg)
	if err == nil && entries != l.cfg.Entries {
		f, err = l.replace(f, path, entries)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("events in %s: %w", path, err), f.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.file = &file{f: f, path: path, written: l.seq, runs: encodeRuns(l.begun), cancel: cancel, ended: make(chan struct{})}
	go l.write(ctx) // ends with Close
	return l, nil
}

// openLocked opens and locks the file at path. If another process replaces the file meanwhile, it opens the new
// one.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil {
			err = lock(f, info)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
		if named, err := os.Stat(path); err == nil && os.SameFile(named, info) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

func lock(f *os.File, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errIrregular
	}
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// ErrInUse is the error of a file that another process has open.
var ErrInUse = errors.New("another target uses it: stop that target, or name another file")

var errIrregular = errors.New("it is not a regular file: name another")

var errForeign = errors.New("it is not a log of events, or its first line is damaged: name another file, or remove it")

// load reads a file, or initializes an empty one. It returns the number of entries for which the file was made.
func load(f *os.File, cfg Config) (l *Log, entries int, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > runsOffset(MaxEntries)+recordSize { // longer than any log
		return nil, 0, errForeign
	}
	l = New(cfg)
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, err
	}
	if zero(text) {
		l.begin(nil)
		return l, l.cfg.Entries, l.initialize(f)
	}
	id, entries, known := decodeHeader(text[:min(len(text), recordSize)])
	if !known {
		return nil, 0, errForeign
	}
	l.id = id
	records := text[recordSize:]
	list := records[:min(len(records), entries*recordSize)]
	if entries == l.cfg.Entries {
		l.restore(list)
	} else {
		l.adopt(list)
	}
	l.begin(decodeRuns(records[len(list):]))
	return l, entries, nil
}

// zero reports whether text has only zero bytes. A power failure can leave a new file so.
func zero(text []byte) bool { return bytes.Count(text, []byte{0}) == len(text) }

// read decodes the record of an event, and counts it if it is damaged.
func (l *Log) read(b []byte) (e Event, ok bool) {
	if e, ok = decode(b); !ok && !zero(b) {
		l.stats.Damaged++
	}
	return e, ok
}

// restore reads the records of a file into the same places of l. It must be called before l is shared.
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

// adopt reads the records of a file with a different number of entries.
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

// initialize writes the header of a file that has no contents.
func (l *Log) initialize(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(encodeHeader(l.id, l.cfg.Entries), 0); err != nil {
		return errors.Join(err, f.Truncate(0)) // with half a header, it would never again be recognized as a log
	}
	return f.Sync()
}

// Check returns an error if the file exists and Open would not accept it as a log of events. It does not lock,
// create or change anything.
func Check(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = check(f, info)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("events in %s: %w", path, err)
	}
	return nil
}

func check(f *os.File, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errIrregular
	case info.Size() > runsOffset(MaxEntries)+recordSize:
		return errForeign
	}
	text, err := io.ReadAll(f)
	if _, _, known := decodeHeader(text[:min(len(text), recordSize)]); err == nil && !known && !zero(text) {
		err = errForeign
	}
	return err
}

// replace replaces a file that was made for a different number of entries by one with the contents of l. The old
// file stays locked until the name refers to the new one.
func (l *Log) replace(old *os.File, path string, entries int) (*os.File, error) {
	if err := namedfile.Replace(path, l.text(), namedfile.Options{}); err != nil {
		return old, fmt.Errorf("keeping %d events instead of %d needs a new file: check its directory, or keep %d: %w",
			l.cfg.Entries, entries, entries, err)
	}
	f, err := openLocked(path)
	if err != nil {
		return old, err
	}
	return f, old.Close()
}

// text returns the contents of l in the file format.
func (l *Log) text() []byte {
	b := make([]byte, runsOffset(l.cfg.Entries))
	copy(b, encodeHeader(l.id, l.cfg.Entries))
	for _, e := range l.placed(0) {
		copy(b[e.offset:], encode(e.Event))
	}
	return append(b, encodeRuns(l.begun)...)
}

// A placedEvent is an event with the offset of its record in the file.
type placedEvent struct {
	Event
	offset int64
}

// placed returns the events after number seq, in order.
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

// put writes events, and the record of the runs if it is not written yet.
func (f *file) put(list []placedEvent, entries int) error {
	if f.runs != nil {
		if _, err := f.f.WriteAt(f.runs, runsOffset(entries)); err != nil {
			return err
		}
	}
	for _, e := range list {
		if _, err := f.f.WriteAt(encode(e.Event), e.offset); err != nil {
			return err
		}
	}
	err := f.f.Sync()
	if err == nil {
		f.runs = nil
	}
	return err
}

// write writes events as they are recorded, and the remaining ones when ctx ends.
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

// writeNow writes the events that are not yet written. A failed write is not tried again, since another event may
// have the place by then.
func (l *Log) writeNow() {
	f := l.file
	list := l.placed(f.written)
	if len(list) == 0 && f.runs == nil {
		return
	}
	var lost uint64
	err := l.keep(list)
	if err != nil {
		lost = uint64(len(list))
	}
	if len(list) > 0 {
		last := list[len(list)-1].Seq
		lost += last - f.written - uint64(len(list)) // overwritten in memory while the file hung
		f.written = last
	}
	l.mu.Lock()
	l.stats.Unwritten += lost
	l.mu.Unlock()
	l.notify(err)
}

// notify calls Config.Failed if the state of the file has changed since the last call.
func (l *Log) notify(err error) {
	f := l.file
	if was := f.failing; was != (err != nil) {
		f.failing = !was
		if l.cfg.Failed != nil {
			l.cfg.Failed(err)
		}
	}
}

// Close records the pending counts of equal events, and writes and closes the file. It waits at most 3 s for the
// file system. Events that are recorded later are not written.
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
		return errors.New("events: the file does not answer, and may lack the last events: check its file system")
	}
}
