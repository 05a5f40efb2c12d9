package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
)

// keep writes events. A file that somebody has emptied, cut short or removed since it was opened gets all that the
// log has: without its header the next start would take it for no log, and one without a name is
// lost with the descriptor. What somebody has put in its place stays.
func (l *Log) keep(list []placedEvent) error {
	f := l.file
	how, why := f.spoilt(encodeHeader(l.id, l.cfg.Entries))
	if why == nil {
		return f.put(list, l.cfg.Entries)
	}
	var err error
	switch how {
	case removed:
		err = l.makeAgain()
	case shortened:
		if _, err = f.f.WriteAt(l.text(), 0); err == nil {
			err = f.f.Sync()
		}
	case foreign:
		return why
	}
	if err != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	f.runs = nil
	l.notify(why) // and that it is over when this returns
	return nil
}

// A spoiling is what somebody has done to a file.
type spoiling int

const (
	removed   spoiling = iota + 1 // it has no name any more
	shortened                     // emptied, or shortened
	foreign                       // something else was written to it
)

// spoilt is why what was written is not in the file any more, or, if it was removed, in none that has a name. One that
// was moved away has all.
func (f *file) spoilt(header []byte) (how spoiling, why error) {
	open, ok := f.f.(*os.File)
	if !ok || f.path == "" {
		return 0, nil
	}
	info, err := open.Stat()
	if err != nil {
		return 0, nil // writing finds out what is wrong
	}
	if namedfile.Removed(f.path, info) {
		return removed, fmt.Errorf("%s was removed while it was written to: it must be created again", f.path)
	}
	b := make([]byte, len(header))
	n, err := open.ReadAt(b, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return 0, nil
	case info.Size() < f.end, zero(b[:n]):
		return shortened, fmt.Errorf("%s was truncated while it was written to: it must be rewritten", f.path)
	case !bytes.Equal(b, header):
		return foreign, fmt.Errorf("%s was overwritten while it was written to, and is not changed: remove it, and it is created again", f.path)
	}
	f.end = info.Size()
	return 0, nil
}

// makeAgain makes the file of a log anew, unless there is another one by now.
func (l *Log) makeAgain() error {
	f := l.file
	if _, err := os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("another file is in its place: remove that, and this one is created again"), err)
	}
	if err := namedfile.Replace(f.path, l.text(), namedfile.Options{}); err != nil {
		return err
	}
	next, err := openLocked(f.path)
	if err != nil {
		return err
	}
	before := f.f
	f.f, f.end = next, 0
	return before.Close()
}
