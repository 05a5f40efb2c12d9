package control

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// saveRecords saves again what hosts have set whose file was removed since it was saved: who opens it
// next, in another process or this one, would wait for what this one knows. Called with mu held.
func saveRecords(m *Manager) error {
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			continue // it is leaving
		}
		err = m.stores.mend(d.State, func() error {
			return m.stores.known.recordGone(d.State, stateRecord)
		}, func() error { return target.SaveState(s) })
		if err != nil {
			return err
		}
		for _, n := range d.Namespaces {
			if err := saveReservations(m, d.NQN, n); err != nil {
				return err
			}
		}
	}
	return nil
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
	return m.stores.mend(n.Reservations, func() error {
		return m.stores.known.recordGone(n.Reservations, reservationRecord)
	}, served.SaveReservations)
}

// mend has a record saved again of which check says that it is gone.
func (s *stores) mend(p config.Path, check, save func() error) error {
	if p == "" {
		return nil
	}
	why := s.ask(p, check)
	if why == nil {
		return nil
	}
	if err := save(); err != nil {
		return fmt.Errorf("%w; and it cannot be saved again: %w", why, err)
	}
	s.log.Warn("what hosts have set is saved again: the file was removed while it is in use", zap.String("file", string(p)), zap.NamedError("why", why))
	return nil
}
