package target

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// notifyReserved adds notices to the logs of the hosts' controllers in all subsystems that
// export the volume.
func (t *Target) notifyReserved(v *storage.Volume, notices []reservation.Notice) {
	if len(notices) == 0 {
		return
	}
	t.exports(v, func(s *Subsystem, id capsule.NSID) { s.notifyReservation(id, notices) })
}

func (s *Subsystem) notifyReservation(id capsule.NSID, notices []reservation.Notice) {
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

// dropNotices removes what hosts have not read yet of the reservations of a namespace that another has replaced: they
// would take it to be of that one.
func dropNotices(s *Subsystem, id capsule.NSID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		c.do(func() {
			if c.notices.Drop(id) {
				c.events.Withdraw(state.EventReservation)
			}
		})
	}
}

// abortReserved aborts the commands that hosts have under way on the volume (NVMe base
// 2.0, 8.19.7), and calls done after the last of them has ended.
func (t *Target) abortReserved(v *storage.Volume, hosts []capsule.HostID, done func()) {
	abortCommands(t, selection{
		queue:   func(q *queue) bool { return slices.Contains(hosts, q.controller.hostID) },
		request: func(r *request) bool { return r.op.Lane != nil && r.op.Lane.Volume == v },
	}, capsule.StatusAbortedByPreempt, done)
}

// awaitAborted waits until the commands that hosts have under way on a volume have ended.
func (t *Target) awaitAborted(v *storage.Volume, hosts []capsule.HostID) {
	ended := make(chan struct{})
	t.abortReserved(v, hosts, func() { close(ended) })
	t.urge(ended, nil, t.fetchTimeout, func(q *queue) bool { return q.holdsUpStop(v) })
}

// reserve executes a command that changes the reservation of a namespace's volume. It is
// called outside of the shards, and may block.
func (c *Controller) reserve(ns *storage.Namespace, turn storage.Ticket, cmd reservation.Command) capsule.Status {
	v, t := ns.Volume, c.target
	cmd.NQN = c.hostNQN
	if !c.mayReserve(ns, &cmd) {
		t.log.Trouble("reservation refused", zap.Stringer("command", cmd.Opcode), zap.String("host", string(c.hostNQN)),
			zap.String("subsystem", string(c.subsystem.nqn)), zap.Uint32("nsid", uint32(ns.ID)), zap.String("reason", "host may only read the namespace"),
			zap.String("remedy", mayWrite(c, ns)))
		happenedTo(c, ns, events.Refused, events.Warning, cmd.Opcode.String()+" refused: host may only read the namespace")
		return capsule.StatusAccessDenied | capsule.StatusDNR
	}
	before := v.Reservations.State()
	out, err := v.Reservations.Apply(turn, cmd)
	t.notifyReserved(v, out.Notices)
	if len(out.Abort) > 0 {
		t.awaitAborted(v, out.Abort)
	}
	if err != nil { // the state has not changed
		t.log.Trouble("reservation not saved, command failed", zap.Stringer("command", cmd.Opcode), zap.String("host", string(c.hostNQN)),
			zap.Uint32("nsid", uint32(ns.ID)), zap.String("export", v.Name), zap.Error(err))
		// Not one of the store: a host can cause as many as it likes, and those have no rate.
		happenedTo(c, ns, events.Reservation, events.Error, "reservation not saved, command failed: "+err.Error())
	}
	if out.Status.OK() {
		happenedTo(c, ns, events.Reservation, events.Info, describeReservation(&cmd, before, v.Reservations.State()))
	}
	return out.Status
}
