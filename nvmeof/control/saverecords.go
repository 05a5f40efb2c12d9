package control

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// saveRecords saves again the records of hosts' settings whose files were removed or damaged. Whoever opened such a
// file next would wait for what this process knows. The caller holds mu.
func saveRecords(m *Manager) error {
	var errs []error
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			continue // it is being removed
		}
		errs = append(errs, m.stores.saveAgain(d.State, stateRecord, target.StateFile(d.State).Check, func() (bool, error) { return target.SaveState(s) }))
		for _, n := range d.Namespaces {
			errs = append(errs, saveReservations(m, d.NQN, n))
		}
	}
	return errors.Join(errs...)
}

// saveReservations saves the reservations of a namespace again if necessary. Those of a namespace that waits are in
// its file only.
func saveReservations(m *Manager, nqn nvmeof.NQN, n *config.Namespace) error {
	if _, waits := m.waiting[namespaceKey{nqn, n.NSID}]; waits {
		return nil
	}
	s, err := m.subsystem(nqn)
	if err != nil {
		return nil // it is being removed
	}
	served, err := namespace(s, n.NSID)
	if err != nil {
		return nil // it is being removed
	}
	return m.stores.saveAgain(n.Reservations, reservationRecord, target.ReservationFile(n.Reservations).Check, func() (bool, error) { return true, served.SaveReservations() })
}

// saveAgain saves a record again that is missing, or that is damaged according to check. save reports whether the target
// knows its content.
func (s *stores) saveAgain(p config.Path, what recordKind, check func() error, save func() (known bool, err error)) error {
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
		return nil // opening it reports other errors
	})
	if why == nil {
		return nil
	}
	switch known, err := save(); {
	case err != nil:
		return fmt.Errorf("%w; it could not be saved again either: %w", why, err)
	case !known: // hosts wait for it as before
		return nil
	}
	s.log.Warn("reservations or state of hosts saved again: the file was removed or damaged while in use", zap.String("file", string(p)), zap.NamedError("why", why))
	return nil
}
