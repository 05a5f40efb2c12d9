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

// keep writes events. If the file was emptied, shortened or removed since it was opened, it writes the whole log.
// Without its header, the next start would not recognize the file, and a file without a name is lost when it is
// closed. If another file has the name, it is left alone.
func (l *Log) keep(list []placedEvent) error {
	f := l.file
	how, why := f.damaged(encodeHeader(l.id, l.cfg.Entries))
	if why == nil {
		return f.put(list, l.cfg.Entries)
	}
	var err error
	switch how {
	case removed:
		err = l.recreate()
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
	l.notify(why) // writeNow calls notify(nil) when this succeeds
	return nil
}

// A damage is what was done to the file.
type damage int

const (
	removed   damage = iota + 1 // it has no name any more
	shortened                   // it was emptied or shortened
	foreign                     // its header was overwritten
)

// damaged returns why the file does not have the events that were written to it, or has no name; nil: it is sound. A
// file that was renamed is sound.
func (f *file) damaged(header []byte) (how damage, why error) {
	open, ok := f.f.(*os.File)
	if !ok || f.path == "" {
		return 0, nil
	}
	info, err := open.Stat()
	if err != nil {
		return 0, nil // the write will return an error
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

// recreate creates the file of the log again, unless another file has its name by now.
func (l *Log) recreate() error {
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
