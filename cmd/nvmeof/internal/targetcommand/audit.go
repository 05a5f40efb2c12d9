package targetcommand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// auditLog is the value of --audit that selects the log.
const auditLog = "-"

// An audit writes a line for each operation. One goroutine writes the lines, and another makes them durable. Thus a
// file system that is slow or hangs delays no operation, and a slow fsync delays no line.
type audit struct {
	path     string // empty: the log
	log      *zap.Logger
	happened *events.Log
	written  chan struct{} // closed when all lines are written
	ended    chan struct{} // closed when they are durable too
	apart    func() error  // returns an error if the file has another use too
	sync     func(*os.File) error
	dirty    chan struct{} // there is something to sync
	named    *os.File      // the last file whose name is durable; used by keep only

	mu     sync.Mutex // guards the fields below
	lines  chan control.Operation
	reopen bool
	why    string // why the file is not open
	over   bool   // no more lines are accepted
	lost   uint64
	file   *os.File   // to sync; nil: none
	left   []*os.File // to sync and close
}

const (
	auditQueue = 256                    // operations waiting to be written
	auditEnd   = 3 * time.Second        // time for the file system at the end
	auditSync  = 500 * time.Millisecond // how long lines are collected for one fsync
)

// errNoAudit is returned for a path that can never receive lines, whatever the state of its file system.
var errNoAudit = errors.New("name a file")

// openAudit opens the audit; nil if doc configures none. It opens the file once, so that errors show at the start. A
// failure of the file system is only logged: hosts are served all the same, and each line tries again.
func openAudit(o *opening, doc config.Audit, log *zap.Logger, happened *events.Log, apart func() error) (*audit, error) {
	if doc == (config.Audit{}) {
		return nil, nil
	}
	a := &audit{path: string(doc.File), log: log, happened: happened, apart: apart, sync: (*os.File).Sync, lines: make(chan control.Operation, auditQueue)}
	var f *os.File
	if a.path != "" {
		var err error
		f, err = opened(o, a.path, a.openFile)
		switch {
		case errors.Is(err, errNoAudit) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENXIO):
			return nil, err
		case err != nil:
			a.reopen, a.why = true, err.Error()
			log.Error("audit: lines are lost until the file can be opened", zap.String("file", a.path), zap.Error(err))
			happened.Record(events.Event{Kind: events.Change, Severity: events.Error, Text: "audit: lines are lost until the file can be opened: " + a.why})
		}
	}
	a.begin(f)
	return a, nil
}

// begin starts to write to a file, which is nil if it is not open.
func (a *audit) begin(f *os.File) {
	a.written, a.ended, a.dirty = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	go a.write(f) // ends with end
	go a.keep()   // likewise
}

// troubles reports the problem with the audit's file, if any.
func (a *audit) troubles() []control.Trouble {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == "" {
		return nil
	}
	return []control.Trouble{{Export: a.path, Why: "audit: lines are lost until the file can be opened: " + a.why}}
}

// openFile opens the file, unless apart returns an error.
func (a *audit) openFile() (*os.File, error) {
	if a.apart != nil {
		if err := a.apart(); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	return openAuditFile(a.path)
}

func openAuditFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		err = fmt.Errorf("%w: if it is a FIFO, start its reader first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = takesLines(info.Mode())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit: %s: %w", path, err), f.Close())
	}
	return f, nil
}

// takesLines rejects block devices, whose data the lines would overwrite.
func takesLines(m fs.FileMode) error {
	if m&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice {
		return fmt.Errorf("it is a block device, which is not overwritten: %w", errNoAudit)
	}
	return nil
}

// add queues an operation. It does not block.
func (a *audit) add(o control.Operation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	select {
	case a.lines <- o:
	default:
		a.lose(&o, "the file does not answer")
	}
}

// sink returns the function that accepts operations; nil without an audit.
func (a *audit) sink() func(control.Operation) {
	if a == nil {
		return nil
	}
	return a.add
}

// rotated has the file opened again before the next line, because logrotate has moved it.
func (a *audit) rotated() {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reopen = true
	}
}

// lose counts and reports an operation whose line is lost. Called with mu held.
func (a *audit) lose(o *control.Operation, why string) {
	a.lost++
	a.log.Error("audit: a line is lost", zap.String("file", a.path), zap.String("why", why), zap.Uint64("lost", a.lost),
		zap.String("operation", o.Name), zap.String("came_to", outcomeOf(o)))
	a.happened.Record(events.Event{Kind: events.Change, Severity: events.Error, Text: "audit: a line is lost: " + why})
}

// outcomeOf describes the result of an operation.
func outcomeOf(o *control.Operation) string {
	switch o.Result {
	case "ok":
		return "it was executed"
	case string(control.CodeUnsaved):
		return "the target was changed, but the change is not saved: " + o.Error
	}
	return "it failed: " + o.Error
}

// write writes lines until end. If a line could be written only partly, the next one starts with a newline.
func (a *audit) write(f *os.File) {
	defer close(a.written)
	torn := false
	for o := range a.lines {
		if o.By.Process != nil {
			if u, err := user.LookupId(strconv.Itoa(o.By.UID)); err == nil {
				o.By.User = u.Username
			}
		}
		line := auditLine(&o)
		if a.path == "" {
			a.log.Info("audit", zap.Any("operation", json.RawMessage(line)))
			continue
		}
		if torn {
			line = append([]byte("\n"), line...)
		}
		var n int
		var err error
		if f, err = a.current(f); err == nil {
			n, err = f.Write(line)
			a.wrote(f, nil)
		}
		if err != nil {
			a.mu.Lock()
			a.lose(&o, err.Error())
			a.mu.Unlock()
		}
		torn = err != nil && (n > 0 || torn)
	}
	a.wrote(nil, f)
}

// wrote marks file f to be synced, and file left, which is not written any more, to be synced and closed. Either may
// be nil.
func (a *audit) wrote(f, left *os.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.file = f
	if left != nil {
		a.left = append(a.left, left)
	}
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// keep makes lines durable soon after they are written, until all are.
func (a *audit) keep() {
	defer close(a.ended)
	failed := ""
	for last := false; !last; {
		select {
		case <-a.dirty:
			select { // more lines may follow
			case <-time.After(auditSync):
			case <-a.written:
			}
		case <-a.written:
			last = true
		}
		why := ""
		if err := a.syncAll(); err != nil {
			why = err.Error()
		}
		if why != "" && why != failed {
			a.log.Error("audit: lines may be lost if the machine ends", zap.String("file", a.path), zap.String("why", why))
			a.happened.Record(events.Event{Kind: events.Change, Severity: events.Error, Text: "audit: lines may be lost if the machine ends: " + why})
		}
		failed = why
	}
}

// syncAll syncs the files with new lines, and closes those that are not written any more.
func (a *audit) syncAll() error {
	a.mu.Lock()
	f, left := a.file, a.left
	a.file, a.left = nil, nil
	a.mu.Unlock()
	var errs []error
	for _, old := range left {
		errs = append(errs, a.syncFile(old), old.Close())
	}
	if f != nil {
		errs = append(errs, a.syncFile(f))
	}
	return errors.Join(errs...)
}

// syncFile syncs a file, and the first time also its directory, if the process may open that. Errors of files that
// cannot be synced, such as a FIFO or a terminal, are ignored.
func (a *audit) syncFile(f *os.File) error {
	if f != a.named {
		if d, err := os.Open(filepath.Dir(a.path)); err == nil {
			_, _ = d.Sync(), d.Close() // not all file systems support it, and the lines are safe anyway
		}
		a.named = f
	}
	err := a.sync(f)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// current returns the file to write to: f, or a new one if f was rotated or removed.
func (a *audit) current(f *os.File) (*os.File, error) {
	gone := a.removed(f)
	a.mu.Lock()
	again := a.reopen || gone
	a.reopen = false
	a.mu.Unlock()
	if !again {
		return f, nil
	}
	if gone {
		a.log.Error("audit: the file was removed while it was in use, and the lines in it are lost; creating it again", zap.String("file", a.path))
		a.happened.Record(events.Event{Kind: events.Change, Severity: events.Error, Text: "audit: the file was removed, and the lines in it are lost; creating it again"})
	}
	next, err := a.openFile()
	if err != nil {
		a.rotated() // for the next line
		a.noteWhy(err.Error())
		return f, err
	}
	a.wrote(nil, f)
	a.noteWhy("")
	return next, nil
}

// removed reports whether a file has no name any more, so that nobody can read its lines. It returns false for a file
// that was moved, and for FIFOs and others that are not regular files.
func (a *audit) removed(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular() && namedfile.Removed(a.path, info)
}

func (a *audit) noteWhy(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = why
}

// auditLine formats an operation as a line of JSON.
func auditLine(o *control.Operation) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(o) // cannot fail
	return b.Bytes()
}

// end writes the remaining lines and makes them durable.
func (a *audit) end() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	a.over = true
	close(a.lines)
	a.mu.Unlock()
	select {
	case <-a.ended:
		return nil
	case <-time.After(auditEnd):
		return fmt.Errorf("audit: %s does not answer, and may lack the last lines", a.path)
	}
}
