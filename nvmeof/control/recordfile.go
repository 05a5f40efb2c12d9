package control

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A recordFile is a file in which the target saves reservations, or the state of a subsystem. If its file system
// hangs, an operation fails with a [HungError], so that the target can release its locks. Two values for the same
// file are equal.
type recordFile struct {
	stores *stores
	path   config.Path
	what   recordKind
	file   interface {
		target.ReservationStore
		target.ReservationLocker
	}
}

func (s *stores) reservationFile(p config.Path) recordFile {
	return recordFile{s, p, reservationRecord, target.ReservationFile(p)}
}

func (s *stores) stateFile(p config.Path) recordFile {
	return recordFile{s, p, stateRecord, target.StateFile(p)}
}

// String returns the path of the file.
func (f recordFile) String() string { return string(f.path) }

// Lock implements [target.ReservationLocker].
func (f recordFile) Lock() (func() error, error) {
	unlock, err := reach(&f.stores.reacher, f.path, f.file.Lock, func(unlock func() error) { _ = unlock() })
	if err != nil {
		return nil, err
	}
	return func() error { return f.stores.last(f.path, unlock) }, nil
}

// Load implements [target.ReservationStore]. The caller holds the Manager's mutex.
func (f recordFile) Load() ([]byte, error) {
	wanted, known := f.stores.used[f.path], f.stores.known
	b, err := reach(&f.stores.reacher, f.path, func() ([]byte, error) {
		if f.what == stateRecord && !wanted {
			if err := known.recordGone(f.path, f.what); err != nil {
				return nil, err
			}
		}
		return f.file.Load()
	}, nil)
	if f.what == stateRecord && b == nil && err == nil {
		f.stores.log.Warn("state file did not exist and has been created: the SMART counters are zero, and no namespace is write-protected",
			zap.String("file", string(f.path)))
	}
	return b, err
}

// Save implements [target.ReservationStore]. Hosts can cause it at any time. After a [HungError] the file has its
// previous content, or b if the last step hung.
func (f recordFile) Save(b []byte) error {
	timeout := f.stores.recordTime()
	staged, err := stage(&f.stores.reacher, timeout, f.path, b)
	if err == nil {
		err = commit(&f.stores.reacher, timeout, f.path, staged)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.what, err)
	}
	if known := f.stores.known; known != "" { // if this fails, the next start does it
		_, _ = reachFor(&f.stores.reacher, timeout, config.Path(known), func() (struct{}, error) {
			return struct{}{}, known.noteRecord(f.path, f.what)
		}, nil)
	}
	return nil
}

// stage is [namedfile.Stage] with a time limit.
func stage(r *reacher, timeout time.Duration, p config.Path, text []byte) (*namedfile.Staged, error) {
	return reachFor(r, timeout, p, func() (*namedfile.Staged, error) {
		return namedfile.Stage(string(p), text, namedfile.Options{})
	}, (*namedfile.Staged).Discard)
}

// commit is [namedfile.Staged.Commit] with a time limit.
func commit(r *reacher, timeout time.Duration, p config.Path, s *namedfile.Staged) error {
	_, err := reachFor(r, timeout, p, func() (struct{}, error) { return struct{}{}, s.Commit() }, nil)
	if refused(err) {
		r.after(p, s.Discard)
	}
	return err
}
