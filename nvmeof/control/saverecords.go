package control

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// saveRecords saves again what hosts have set whose file was removed or damaged since it was saved: who opens it
// next, in another process or this one, would wait for what this one knows. Called with mu held.
func saveRecords(m *Manager) error {
	var errs []error
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			continue // it is leaving
		}
		errs = append(errs, m.stores.mend(d.State, stateRecord, target.StateFile(d.State).Check, func() (bool, error) { return target.SaveState(s) }))
		for _, n := range d.Namespaces {
			errs = append(errs, saveReservations(m, d.NQN, n))
		}
	}
	return errors.Join(errs...)
}

// saveReservations is that of one namespace. One that waits has what is in its file.
func saveReservations(m *Manager, nqn nvmeof.NQN, n *config.Namespace) error {
	if _, waits := m.waiting[namespaceKey{nqn, n.NSID}]; waits {
		return nil
	}
	s, err := m.subsystem(nqn)
	if err != nil {
		return nil // it is leaving
	}
	served, err := namespace(s, n.NSID)
	if err != nil {
		return nil // likewise
	}
	return m.stores.mend(n.Reservations, reservationRecord, target.ReservationFile(n.Reservations).Check, func() (bool, error) { return true, served.SaveReservations() })
}

// mend has a record saved again that is gone, or of which check says that it is damaged; save says whether the target knows what
// it had.
func (s *stores) mend(p config.Path, what recordKind, check func() error, save func() (known bool, err error)) error {
	if p == "" {
		return nil
	}
	why := s.ask(p, func() error {
		if err := s.known.recordGone(p, what); err != nil {
			return err
		}
		if err := check(); errors.As(err, new(*target.RecordError)) {
			return err
		}
		return nil // opening it reports what else is wrong
	})
	if why == nil {
		return nil
	}
	switch known, err := save(); {
	case err != nil:
		return fmt.Errorf("%w; and it cannot be saved again: %w", why, err)
	case !known: // hosts wait for it as before
		return nil
	}
	s.log.Warn("what hosts have set is saved again: the file was removed or damaged while it is in use", zap.String("file", string(p)), zap.NamedError("why", why))
	return nil
}
