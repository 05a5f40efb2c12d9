package target

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// startReservation takes Reservation Register, Acquire or Release. Linux sends 16
// bytes with each of them.
func startReservation(_ *queue, r *request) {
	want := capsule.ReservationKeysSize
	if capsule.IOOpcode(r.cmd.Opcode) == capsule.IOReservationRelease {
		want = capsule.ReservationReleaseSize
	}
	switch l := r.enter(r.cmd.NSID); {
	case l == nil:
	case r.link.Length() < want:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case r.link.InCapsule() != nil:
		r.data = r.link.InCapsule()
		runReservation(r)
	default:
		r.wantBuffer()
	}
}

// runReservation has the keys.
func runReservation(r *request) {
	var keys [capsule.ReservationKeysSize]byte
	copy(keys[:], r.data)
	cmd := reservation.Command{
		Opcode: capsule.IOOpcode(r.cmd.Opcode), Host: r.queue.controller.hostID, Fields: r.cmd.ReservationCommand(),
	}
	cmd.Keys, _ = capsule.DecodeReservationKeys(keys[:]) // as long as it must be
	v, t := r.Lane.Volume, r.queue.target
	cmd.CanPersist = v.Reservations.Persists()
	r.outside(func() func() {
		out, err := v.Reservations.Change(func(s reservation.State) (reservation.State, reservation.Outcome) { return s.Apply(cmd) })
		t.tellReserved(v, out.Notices)
		if len(out.Abort) > 0 {
			ended := make(chan struct{})
			t.abortReserved(v, out.Abort, func() { close(ended) })
			<-ended
		}
		return func() {
			r.logReservation(err)
			r.finish(out.Status)
		}
	})
}

// outside runs f, which may block, outside of the shard, and what it returns in it.
func (r *request) outside(f func() func()) {
	r.stage = stageHeld
	s := r.queue.shard
	go func() { // ends by itself; the queue, and so the shard, waits for its request
		s.Do(f())
	}()
}

// abortReserved ends the commands that hosts have under way on the volume (NVMe base 2.0,
// 8.19.7), and calls done after the last of them. What a store has been given
// cannot be taken back, but is waited for, and answered as aborted.
func (t *Target) abortReserved(v *volume.Volume, hosts []capsule.HostID, done func()) {
	var left atomic.Int64
	left.Store(1)
	ended := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	t.mu.Lock()
	for q := range t.queues {
		left.Add(1)
		if !q.shard.Do(func() {
			q.abortReserved(v, hosts, &left, ended)
			ended()
		}) {
			ended()
		}
	}
	t.mu.Unlock()
	ended()
}

// abortReserved does that on one queue.
func (q *queue) abortReserved(v *volume.Volume, hosts []capsule.HostID, left *atomic.Int64, ended func()) {
	if q.controller == nil || !slices.Contains(hosts, q.controller.hostID) {
		return
	}
	for i := range q.requests {
		r := &q.requests[i]
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
func startReport(_ *queue, r *request) {
	f := r.cmd.ReservationReport()
	switch l := r.enter(r.cmd.NSID); {
	case l == nil:
	case !f.Extended:
		r.finish(capsule.StatusHostIDInconsistent | capsule.StatusDNR)
	case f.Length > uint64(r.queue.target.cfg.MaxData):
		r.finish(invalidField) // MDTS
	case uint64(r.link.Length()) != f.Length:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	default:
		r.wantBuffer()
	}
}

func runReport(r *request) {
	clear(r.data)
	copy(r.data, r.Lane.Volume.Reservations.State().Report())
	r.finishData(r.data, r.queue.worker.arenaKey)
}
