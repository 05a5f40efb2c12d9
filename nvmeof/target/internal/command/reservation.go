package command

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// startReservation takes Reservation Register, Acquire or Release. Linux sends 16
// bytes with each of them.
func startReservation(_ *Queue, r *Request) {
	want := capsule.ReservationKeysSize
	if capsule.IOOpcode(r.Cmd.Opcode) == capsule.IOReservationRelease {
		want = capsule.ReservationReleaseSize
	}
	switch l := r.enter(r.Cmd.NSID); {
	case l == nil:
	case !r.Gate.Namespace.Reservable():
		r.Finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
	case r.Link.Length() < want:
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case r.Link.InCapsule() != nil:
		r.Data = r.Link.InCapsule()
		runReservation(r)
	default:
		r.wantBuffer()
	}
}

// runReservation has the keys.
func runReservation(r *Request) {
	var keys [capsule.ReservationKeysSize]byte
	copy(keys[:], r.Data)
	cmd := reservation.Command{
		Opcode: capsule.IOOpcode(r.Cmd.Opcode), Host: r.Queue.HostID, Fields: r.Cmd.ReservationCommand(),
	}
	cmd.Keys, _ = capsule.DecodeReservationKeys(keys[:]) // as long as it must be
	ns, client := r.Gate.Namespace, r.Queue.Client
	cmd.CanPersist = ns.Volume.Reservations.Persists()
	r.Outside(func() func() {
		status := client.Reserve(ns, cmd)
		return func() { r.Finish(status) }
	})
}

// Outside runs f, which may block, outside of the shard, and what it returns in it.
func (r *Request) Outside(f func() func()) {
	r.stage = stageHeld
	s := r.Queue.Shard
	go func() { // ends by itself; the queue, and so the shard, waits for its request
		s.Do(f())
	}()
}

// AbortOn ends the commands under way on a volume, and counts those in left that end
// later: ended is called for each of them.
func (q *Queue) AbortOn(v *storage.Volume, left *atomic.Int64, ended func()) {
	for i := range q.Requests {
		r := &q.Requests[i]
		if r.stage == stageIdle || r.stage == stageAnswered || r.stage == stageHeld || r.Lane == nil || r.Lane.Volume != v {
			continue
		}
		if r.stop(capsule.StatusAbortedByPreempt) != stopNow {
			r.stopped = capsule.StatusAbortedByPreempt
			left.Add(1)
			r.whenEnded(ended)
		}
	}
}

// startReport takes Reservation Report. Host identifiers of 16 bytes are all there
// is over fabrics, so it must ask for those.
func startReport(_ *Queue, r *Request) {
	f := r.Cmd.ReservationReport()
	switch l := r.enter(r.Cmd.NSID); {
	case l == nil:
	case !r.Gate.Namespace.Reservable():
		r.Finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
	case !f.Extended:
		r.Finish(capsule.StatusHostIDInconsistent | capsule.StatusDNR)
	case f.Length > uint64(r.Queue.MaxData):
		r.Finish(r.Invalid(10, 0)) // MDTS
	case uint64(r.Link.Length()) != f.Length:
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	default:
		r.wantBuffer()
	}
}

func runReport(r *Request) {
	clear(r.Data)
	copy(r.Data, r.Lane.Volume.Reservations.State().Report())
	r.FinishBuffer()
}
