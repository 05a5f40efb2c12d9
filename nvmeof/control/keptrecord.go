package control

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A recordKind is the kind of a file with data that hosts have set.
type recordKind string

const (
	reservationRecord recordKind = "reservations" // reservations of a namespace
	stateRecord       recordKind = "state"        // state of a subsystem: counters, and write protection that hosts set
)

// noteOf returns the name of the note that the target has written a file.
func (k known) noteOf(p config.Path, what recordKind) string {
	sum := sha256.Sum256([]byte(p))
	return filepath.Join(string(k), hex.EncodeToString(sum[:16])+"."+string(what))
}

// noteRecord writes the note of a file. Its content is for people.
func (k known) noteRecord(p config.Path, what recordKind) error {
	if k == "" {
		return nil
	}
	name := k.noteOf(p, what)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := namedfile.MakeFolder(string(k)); err != nil {
		return err
	}
	return namedfile.Replace(name, []byte(p+"\n"), namedfile.Options{})
}

func (k known) forgetRecord(p config.Path, what recordKind) error {
	if k == "" {
		return nil
	}
	if err := os.Remove(k.noteOf(p, what)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// A missingRecordError reports a missing file that existed before. Hosts that its reservations excluded could use the
// namespace, or a write-protected namespace could be written to.
type missingRecordError struct {
	what       recordKind
	path, note string
}

func (e *missingRecordError) Error() string {
	if e.what == stateRecord {
		return fmt.Sprintf("state: %s is missing (%v): namespaces that hosts have write-protected would be writable, and the SMART counters zero; "+
			"restore it, or, if no host relies on the write protection: rm %s", e.path, errKnown, shell.Quote(e.note))
	}
	return fmt.Sprintf("reservations: %s is missing (%v): the reservations of hosts would be lost, and other hosts could write to the namespace; "+
		"restore it, or, if no host relies on a reservation: rm %s", e.path, errKnown, shell.Quote(e.note))
}

func (e *missingRecordError) Unwrap() error { return fs.ErrNotExist }

// recordGone returns an error if a file is missing that was written before, so that its data would be lost if it
// were created again.
func (k known) recordGone(p config.Path, what recordKind) error {
	if k == "" || p == "" {
		return nil
	}
	note := k.noteOf(p, what)
	_, unknown := os.Lstat(note)
	if errors.Is(unknown, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(string(p)); !errors.Is(err, fs.ErrNotExist) {
		return nil // reading it reports other errors
	}
	if unknown != nil {
		return &unverifiedRecordError{what, string(p), string(k), unknown}
	}
	return &missingRecordError{what, string(p), note}
}

// removal returns the command that makes the target create a record again. It also removes the note, because of
// which hosts would still wait.
func (k known) removal(p config.Path, what recordKind) string {
	if k == "" {
		return "rm " + shell.Quote(string(p))
	}
	return "rm -f " + shell.Quote(string(p)) + " " + shell.Quote(k.noteOf(p, what))
}

// withRemoval adds that command to a RecordError, and returns other errors unchanged.
func (k known) withRemoval(err error, p config.Path, what recordKind) error {
	if !errors.As(err, new(*target.RecordError)) {
		return err
	}
	return fmt.Errorf("%w: %s", err, k.removal(p, what))
}

// withRemoval is known.withRemoval for an error of the target.
func (s *stores) withRemoval(err error) error {
	var unusable *target.RecordError
	if !errors.As(err, &unusable) {
		return err
	}
	f, ok := unusable.Store.(recordFile)
	if !ok { // a record in a group's store, which has no file
		return err
	}
	return s.known.withRemoval(err, f.path, f.what)
}

// checkState returns an error if the file for the state of a subsystem is faulty.
func (k known) checkState(p config.Path) error {
	return k.withRemoval(target.StateFile(p).Check(), p, stateRecord)
}

// checkReservations returns an error if the file for the reservations of a namespace is faulty.
func (k known) checkReservations(nqn nvmeof.NQN, n *config.Namespace) error {
	return k.withRemoval(target.ReservationFile(n.Reservations).CheckFor(nqn, ownerConfig(n)), n.Reservations, reservationRecord)
}

// reservationsGone is recordGone for a namespace that this process has not served and that no administrator adds.
// The target knows the reservations of one that it has served.
func (s *stores) reservationsGone(n *config.Namespace) error {
	if n.Reservations == "" || s.used[n.Reservations] || s.wanted(n) {
		return nil
	}
	return s.ask(n.Reservations, func() error { return s.known.recordGone(n.Reservations, reservationRecord) })
}

// stateIsWanted records that an administrator names a file for the state of a subsystem, and so knows what is
// there.
func (s *stores) stateIsWanted(p config.Path, o Options) {
	if p != "" && !o.Wait {
		s.used[p] = true
	}
}

// reserves notes that a served namespace has its reservations in a file, if that exists.
func (s *stores) reserves(n *config.Namespace) {
	if n.Reservations == "" {
		return
	}
	s.used[n.Reservations] = true
	err := s.ask(n.Reservations, func() error {
		switch _, err := os.Stat(string(n.Reservations)); {
		case err == nil:
			return s.known.noteRecord(n.Reservations, reservationRecord)
		case errors.Is(err, fs.ErrNotExist):
			return s.known.forgetRecord(n.Reservations, reservationRecord) // the note of an earlier file
		default:
			return err
		}
	})
	if err != nil {
		s.log.Warn("existence of the reservations file could not be recorded: a later start would not notice if it is missing", zap.String("file", string(n.Reservations)), zap.Error(err))
	}
}

// records returns the files of a document that have data which hosts have set.
func records(d *config.Document) map[config.Path]recordKind {
	files := map[config.Path]recordKind{}
	for _, s := range d.Subsystems {
		files[s.State] = stateRecord
		for _, n := range s.Namespaces {
			if n.Reservations != "" {
				files[n.Reservations] = reservationRecord
			}
		}
	}
	delete(files, "")
	return files
}

// unused forgets the records that the earlier document names and the new one does not.
func (s *stores) unused(before, now *config.Document) {
	names := records(now)
	for p, what := range records(before) {
		if names[p] == what {
			continue
		}
		delete(s.used, p)
		// A note that remains causes an error if the missing file is named again. The error says what to do.
		_ = s.ask(cmp.Or(config.Path(s.known), p), func() error { return s.known.forgetRecord(p, what) })
	}
}

// doubtReservations returns warnings about namespaces whose reservations are no longer saved.
func doubtReservations(changes []config.Change) (warnings config.Problems) {
	saved := map[namespaceKey]config.Path{}
	for _, c := range changes {
		if n, ok := c.Old.(*config.Namespace); ok && c.Op == config.Remove && n.Reservations != "" {
			saved[namespaceKey{c.Subsystem, n.NSID}] = n.Reservations
		}
	}
	for _, c := range changes {
		n, ok := c.New.(*config.Namespace)
		if !ok || c.Op != config.Add || n.Reservations != "" {
			continue
		}
		at := namespaceKey{c.Subsystem, n.NSID}
		if file := saved[at]; file != "" {
			warnings = append(warnings, config.Problem{Path: namespaceName(at),
				Text: fmt.Sprintf("reservations are no longer saved: the present ones, even those that should survive a power loss, are lost when the target ends; %s is not changed", file),
				Fix:  fmt.Sprintf("to keep them, set reservations: %s", file)})
		}
	}
	return warnings
}
