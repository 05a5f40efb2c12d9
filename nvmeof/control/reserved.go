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
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// noteOf names the note that a file for reservations is there.
func (k known) noteOf(p config.Path) string {
	sum := sha256.Sum256([]byte(p))
	return filepath.Join(string(k), hex.EncodeToString(sum[:16])+".reservations")
}

// noteReservations notes that a file for reservations is there. What it says is for people.
func (k known) noteReservations(p config.Path) error {
	if k == "" {
		return nil
	}
	name := k.noteOf(p)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := namedfile.MakeFolder(string(k)); err != nil {
		return err
	}
	return namedfile.Replace(name, []byte(p+"\n"), namedfile.Options{})
}

func (k known) forgetReservations(p config.Path) error {
	if k == "" {
		return nil
	}
	if err := os.Remove(k.noteOf(p)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// A forgottenError is a file for reservations that is missing though it was there: whom they kept
// from a namespace would find it free.
type forgottenError struct{ path, note string }

func (e *forgottenError) Error() string {
	return fmt.Sprintf("reservations: %s is missing (%v): hosts would find their reservations gone, and others might write what they protect; "+
		"bring it back, or, if no host relies on one: rm %s", e.path, errKnown, e.note)
}

func (e *forgottenError) Unwrap() error { return fs.ErrNotExist }

// reservationsGone is why reservations that hosts had would be forgotten if a namespace were
// served now; nil: none would.
func (k known) reservationsGone(n *config.Namespace) error {
	if k == "" || n.Reservations == "" {
		return nil
	}
	note := k.noteOf(n.Reservations)
	if _, err := os.Lstat(note); err != nil {
		return nil
	}
	if _, err := os.Stat(string(n.Reservations)); !errors.Is(err, fs.ErrNotExist) {
		return nil // reading it reports what else is wrong
	}
	return &forgottenError{string(n.Reservations), note}
}

// reservationsGone is that of a namespace that this process has not served, and that no
// administrator adds. Of one that it has served the target knows the reservations.
func (s *stores) reservationsGone(n *config.Namespace) error {
	if n.Reservations == "" || s.reserved[n.Reservations] || s.wanted(n) {
		return nil
	}
	return s.ask(n.Reservations, func() error { return s.known.reservationsGone(n) })
}

// reserves notes that a namespace is served whose reservations are in a file, if it is there.
func (s *stores) reserves(n *config.Namespace) {
	if n.Reservations == "" {
		return
	}
	s.reserved[n.Reservations] = true
	err := s.ask(n.Reservations, func() error {
		switch _, err := os.Stat(string(n.Reservations)); {
		case err == nil:
			return s.known.noteReservations(n.Reservations)
		case errors.Is(err, fs.ErrNotExist):
			return s.known.forgetReservations(n.Reservations) // of an earlier one
		default:
			return err
		}
	})
	if err != nil {
		s.log.Warn("a later start could not know that the reservations were there, if they were missing", zap.String("file", string(n.Reservations)), zap.Error(err))
	}
}

// reservationFiles are those of a document.
func reservationFiles(d *config.Document) map[config.Path]bool {
	files := map[config.Path]bool{}
	for _, s := range d.Subsystems {
		for _, n := range s.Namespaces {
			files[n.Reservations] = n.Reservations != ""
		}
	}
	return files
}

// unreserve forgets files for reservations that the document had before and has no more.
func (s *stores) unreserve(before, now *config.Document) {
	names := reservationFiles(now)
	for p, is := range reservationFiles(before) {
		if !is || names[p] {
			continue
		}
		delete(s.reserved, p)
		// A note that stays is in the way of somebody who names that file again, without it, and is told so.
		_ = s.ask(cmp.Or(config.Path(s.known), p), func() error { return s.known.forgetReservations(p) })
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
