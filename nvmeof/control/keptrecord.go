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

// A recordKind is what a file keeps for hosts through restarts.
type recordKind string

const (
	reservationRecord recordKind = "reservations" // of a namespace
	stateRecord       recordKind = "state"        // of a subsystem: counters, and write protection that hosts set
)

// noteOf names the note that a file is there which the target has written.
func (k known) noteOf(p config.Path, what recordKind) string {
	sum := sha256.Sum256([]byte(p))
	return filepath.Join(string(k), hex.EncodeToString(sum[:16])+"."+string(what))
}

// noteRecord notes that a file is there. What the note says is for people.
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

// A forgottenError is a file that is missing though it was there: whom its reservations kept from a
// namespace would find it free, and who had to leave a namespace as it is could write.
type forgottenError struct {
	what       recordKind
	path, note string
}

func (e *forgottenError) Error() string {
	if e.what == stateRecord {
		return fmt.Sprintf("state: %s is missing (%v): namespaces that hosts have write-protected would be writable, and the counters of SMART zero; "+
			"bring it back, or, if no host relies on its write protection: rm %s", e.path, errKnown, shell.Quote(e.note))
	}
	return fmt.Sprintf("reservations: %s is missing (%v): hosts would find their reservations gone, and others might write what they protect; "+
		"bring it back, or, if no host relies on one: rm %s", e.path, errKnown, shell.Quote(e.note))
}

func (e *forgottenError) Unwrap() error { return fs.ErrNotExist }

// recordGone is why what a file kept for hosts would be forgotten if it were begun anew now; nil:
// nothing would.
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
		return nil // reading it reports what else is wrong
	}
	if unknown != nil {
		return &doubtfulRecordError{what, string(p), string(k), unknown}
	}
	return &forgottenError{what, string(p), note}
}

// removal is what has a record begun anew: without its file the note that it was there would keep others waiting.
func (k known) removal(p config.Path, what recordKind) string {
	if k == "" {
		return "rm " + shell.Quote(string(p))
	}
	return "rm -f " + shell.Quote(string(p)) + " " + shell.Quote(k.noteOf(p, what))
}

// withRemoval adds that to an error about a record, and to no other one.
func (k known) withRemoval(err error, p config.Path, what recordKind) error {
	if !errors.As(err, new(*target.RecordError)) {
		return err
	}
	return fmt.Errorf("%w: %s", err, k.removal(p, what))
}

// withRemoval is that of a record which the target could not read.
func (s *stores) withRemoval(err error) error {
	var unusable *target.RecordError
	if !errors.As(err, &unusable) {
		return err
	}
	f, ok := unusable.Store.(recordFile)
	if !ok { // that of a group, which has no file
		return err
	}
	return s.known.withRemoval(err, f.path, f.what)
}

// checkState finds what is wrong with the file for the state of a subsystem.
func (k known) checkState(p config.Path) error {
	return k.withRemoval(target.StateFile(p).Check(), p, stateRecord)
}

// checkReservations finds what is wrong with the file for the reservations of a namespace.
func (k known) checkReservations(nqn nvmeof.NQN, n *config.Namespace) error {
	return k.withRemoval(target.ReservationFile(n.Reservations).CheckFor(nqn, ownerConfig(n)), n.Reservations, reservationRecord)
}

// reservationsGone is that of a namespace that this process has not served, and that no
// administrator adds. Of one that it has served the target knows the reservations.
func (s *stores) reservationsGone(n *config.Namespace) error {
	if n.Reservations == "" || s.used[n.Reservations] || s.wanted(n) {
		return nil
	}
	return s.ask(n.Reservations, func() error { return s.known.recordGone(n.Reservations, reservationRecord) })
}

// stateIsWanted notes that an administrator names a file for the state of a subsystem, and knows
// what is there.
func (s *stores) stateIsWanted(p config.Path, o Options) {
	if p != "" && !o.Wait {
		s.used[p] = true
	}
}

// reserves notes that a namespace is served whose reservations are in a file, if it is there.
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
			return s.known.forgetRecord(n.Reservations, reservationRecord) // of an earlier one
		default:
			return err
		}
	})
	if err != nil {
		s.log.Warn("a later start could not know that the reservations were there, if they were missing", zap.String("file", string(n.Reservations)), zap.Error(err))
	}
}

// records are the files of a document that keep something for hosts.
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

// unused forgets records that the document had before and has no more.
func (s *stores) unused(before, now *config.Document) {
	names := records(now)
	for p, what := range records(before) {
		if names[p] == what {
			continue
		}
		delete(s.used, p)
		// A note that stays is in the way of somebody who names that file again, without it, and is told so.
		_ = s.ask(cmp.Or(config.Path(s.known), p), func() error { return s.known.forgetRecord(p, what) })
	}
}

// doubtReservations warns of namespaces whose reservations are saved no longer.
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
				Text: fmt.Sprintf("reservations are no longer saved: those of now, also those that hosts want to survive a power loss, end with the target, and %s stays as it is", file),
				Fix:  fmt.Sprintf("reservations: %s keeps them", file)})
		}
	}
	return warnings
}
