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

// A file is where the events are written. All but what begins it belongs to one goroutine.
type file struct {
	f       storage
	path    string // empty: nobody else has it
	written uint64 // the last event that was
	runs    []byte // the record of them, until it is written
	failing bool
	end     int64 // length that it had when it was last looked at
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
// time has it. With another number of entries than before the file is replaced by a new one, as a
// whole: a crash leaves the old one or the new.
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

// openLocked opens the file that has the name, also where another process replaces it meanwhile,
// and locks it.
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

// ErrInUse is that another process has the file.
var ErrInUse = errors.New("another target uses it: stop that target, or name another file")

var errIrregular = errors.New("it is not a regular file: name another")

var errForeign = errors.New("it is not a log of events, or its first line is damaged: name another file, or remove it")

// load reads a file, and returns for how many entries it was made. One that is empty is made.
func load(f *os.File, cfg Config) (l *Log, entries int, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > runsOffset(MaxEntries)+recordSize { // none is as long
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

// zero reports whether there are zeroes alone, which a power failure leaves of a file that was just made.
func zero(text []byte) bool { return bytes.Count(text, []byte{0}) == len(text) }

// read returns the event of a record, and counts those that are damaged.
func (l *Log) read(b []byte) (e Event, ok bool) {
	if e, ok = decode(b); !ok && !zero(b) {
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

// initialize makes a file that is empty, or as good as that.
func (l *Log) initialize(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(encodeHeader(l.id, l.cfg.Entries), 0); err != nil {
		return errors.Join(err, f.Truncate(0)) // half a header would be no log for good
	}
	return f.Sync()
}

// Check reports why Open would take the file for no log of events, if it is there. It locks, makes and
// changes nothing.
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

// replace puts a file of what the log has in the place of one that was made for another number of
// entries. The old one stays locked until nobody finds it any more.
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

// text is a file of what the log has.
func (l *Log) text() []byte {
	b := make([]byte, runsOffset(l.cfg.Entries))
	copy(b, encodeHeader(l.id, l.cfg.Entries))
	for _, e := range l.placed(0) {
		copy(b[e.offset:], encode(e.Event))
	}
	return append(b, encodeRuns(l.begun)...)
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

// put writes events, and the runs if they are not written yet.
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
		lost += last - f.written - uint64(len(list)) // replaced while the file hung
		f.written = last
	}
	l.mu.Lock()
	l.stats.Unwritten += lost
	l.mu.Unlock()
	l.notify(err)
}

// notify says whether the file takes events, where that is not what was said last.
func (l *Log) notify(err error) {
	f := l.file
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
		return errors.New("events: the file does not answer, and may lack the last events: check its file system")
	}
}
