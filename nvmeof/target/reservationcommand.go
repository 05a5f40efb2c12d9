package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// startReservation starts Reservation Register, Acquire or Release. Linux sends 16 bytes with each of them.
func startReservation(_ *queue, r *request) {
	want := capsule.ReservationKeysSize
	if capsule.IOOpcode(r.cmd.Opcode) == capsule.IOReservationRelease {
		want = capsule.ReservationReleaseSize
	}
	switch l := r.enter(r.cmd.NSID); {
	case l == nil:
	case !r.op.Gate.Namespace.Reservable():
		r.finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
	case r.link.Length() < want:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case r.link.InCapsule() != nil:
		r.data = r.link.InCapsule()
		runReservation(r)
	default:
		r.wantBuffer()
	}
}

// runReservation continues when the keys have arrived.
func runReservation(r *request) {
	var keys [capsule.ReservationKeysSize]byte
	copy(keys[:], r.data)
	cmd := reservation.Command{
		Opcode: capsule.IOOpcode(r.cmd.Opcode), Host: r.queue.controller.hostID, Fields: r.cmd.ReservationCommand(),
	}
	cmd.Keys, _ = capsule.DecodeReservationKeys(keys[:]) // cannot fail: the length is right
	ns, c := r.op.Gate.Namespace, r.queue.controller
	cmd.CanPersist = ns.Volume.Reservations.Persists()
	q, turn := r.queue, ns.Volume.Reservations.Ask()
	r.outside(ns.Volume.Reservations, func() func() {
		status := capsule.StatusSQDeleted // the queue has ended
		if !q.auth.ended.Load() {
			status = c.reserve(ns, turn, cmd)
			countReservation(q.target, &cmd, status)
		}
		return func() { r.finish(status) }
	})
}

// outside calls f, which makes a change and may block, outside of the shard, and then the function that f returns,
// in the shard.
func (r *request) outside(what any, f func() func()) {
	r.stage = stageHeld
	q := r.queue
	q.target.blocking.do(blockingKey{q.host.name, what}, func() { q.shard.Do(f()) })
}

// startReport starts Reservation Report. Over fabrics, host identifiers have 16 bytes, so it must request the
// extended data structure.
func startReport(_ *queue, r *request) {
	f := r.cmd.ReservationReport()
	switch l := r.enter(r.cmd.NSID); {
	case l == nil:
	case !r.op.Gate.Namespace.Reservable():
		r.finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
	case !f.Extended:
		r.finish(capsule.StatusHostIDInconsistent | capsule.StatusDNR)
	case f.Length > uint64(r.queue.target.cfg.MaxData):
		r.finish(r.invalid(10, 0)) // MDTS
	case uint64(r.link.Length()) != f.Length:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	default:
		r.wantBuffer()
	}
}

// runReport continues when there is a buffer.
func runReport(r *request) {
	r.confirmed(r.op.Lane.Volume.Reservations, func(s *reservation.State) {
		clear(r.data)
		copy(r.data, s.Report(controllersOf(r.queue.controller)))
		r.finishBuffer()
	})
}

// confirmed calls answer with the state of reservations: at once if no other target shares them, otherwise when it
// is certain that no other target has changed them.
func (r *request) confirmed(v *storage.Reservations, answer func(*reservation.State)) {
	if !v.Shared() {
		answer(v.State())
		return
	}
	turn := v.Ask()
	r.outside(v, func() func() {
		s, err := v.Confirm(turn)
		if err != nil {
			return func() { r.finish(capsule.StatusANAInaccessible) }
		}
		return func() { answer(s) }
	})
}
