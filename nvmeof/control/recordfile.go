package control

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A recordFile is a file in which the target saves reservations, or the state of a subsystem.
// If its file system hangs an operation ends with a [HungError], so that what the target
// locks for it is locked no longer. Two of the same file are equal.
type recordFile struct {
	reacher *reacher
	path    config.Path
	what    string // is saved: the first word of errors
	known   known  // where it is noted that the file is there; zero: nowhere
	file    interface {
		target.ReservationStore
		target.ReservationLocker
	}
}

func (s *stores) reservationFile(p config.Path) recordFile {
	return recordFile{&s.reacher, p, "reservations", s.known, target.ReservationFile(p)}
}

func (r *reacher) stateFile(p config.Path) recordFile {
	return recordFile{r, p, "counters", "", target.StateFile(p)}
}

// String is the file's path.
func (f recordFile) String() string { return string(f.path) }

// Lock implements [target.ReservationLocker].
func (f recordFile) Lock() (func() error, error) {
	unlock, err := reach(f.reacher, f.path, f.file.Lock, func(unlock func() error) { _ = unlock() })
	if err != nil {
		return nil, err
	}
	return func() error { return f.reacher.last(f.path, unlock) }, nil
}

// Load implements [target.ReservationStore].
func (f recordFile) Load() ([]byte, error) {
	return reach(f.reacher, f.path, f.file.Load, nil)
}

// Save implements [target.ReservationStore]. Hosts cause it too, at any time. After a
// [HungError] the file has what it had, or b if it hung as the last thing was done.
func (f recordFile) Save(b []byte) error {
	timeout := f.reacher.recordTime()
	staged, err := stage(f.reacher, timeout, f.path, b)
	if err == nil {
		err = commit(f.reacher, timeout, f.path, staged)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.what, err)
	}
	if f.known != "" { // what fails of that is done at the next start
		_, _ = reachFor(f.reacher, timeout, config.Path(f.known), func() (struct{}, error) {
			return struct{}{}, f.known.noteReservations(f.path)
		}, nil)
	}
	return nil
}

// stage is [namedfile.Stage], for so long.
func stage(r *reacher, timeout time.Duration, p config.Path, text []byte) (*namedfile.Staged, error) {
	return reachFor(r, timeout, p, func() (*namedfile.Staged, error) {
		return namedfile.Stage(string(p), text, namedfile.Options{})
	}, (*namedfile.Staged).Discard)
}

// commit is [namedfile.Staged.Commit], for so long.
func commit(r *reacher, timeout time.Duration, p config.Path, s *namedfile.Staged) error {
	_, err := reachFor(r, timeout, p, func() (struct{}, error) { return struct{}{}, s.Commit() }, nil)
	if refused(err) {
		r.after(p, s.Discard)
	}
	return err
}
