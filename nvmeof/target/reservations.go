package target

import (
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// conflicts reports whether another host's reservation keeps the command away from
// the namespace.
func (r *request) conflicts(v *volume.Volume) bool {
	guard := v.Reservations.Guard()
	return guard != nil && !guard.Allows(r.queue.controller.hostID, r.io.access)
}

// tellReserved gives notices to the hosts' controllers in all subsystems that export the
// volume.
func (t *Target) tellReserved(v *volume.Volume, notices []reservation.Notice) {
	if len(notices) == 0 {
		return
	}
	for _, s := range t.Subsystems() {
		for _, ns := range s.Namespaces() {
			if ns.ns.Volume == v {
				s.tellReservation(ns.ns.ID, notices)
			}
		}
	}
}

func (s *Subsystem) tellReservation(id capsule.NSID, notices []reservation.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		for _, n := range notices {
			if c.hostID == n.Host && c.view.Rights.Load().See(id) {
				c.do(func() { c.reservationNotice(id, n.What) })
			}
		}
	}
}

// logReservation is one line for a command of which nothing came because the change
// could not be saved.
func (r *request) logReservation(err error) {
	if err == nil {
		return
	}
	c, ns := r.queue.controller, r.gate.Namespace
	r.queue.target.warn("reservation not saved, command failed",
		zap.Stringer("command", capsule.IOOpcode(r.cmd.Opcode)), zap.String("host", c.hostNQN),
		zap.Uint32("nsid", uint32(ns.ID)), zap.String("export", ns.Volume.Name), zap.Error(err))
}
