package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// maxFused limits the bytes of a fused Compare and Write. NACWU promises one block; ACWU allows a controller to
// refuse more than that.
const maxFused = 64 << 10

// fusedRows returns the rows of the two halves, for when both have arrived. The first half has the buffer and the
// operation of both.
func fusedRows() [2]ioRow {
	return [2]ioRow{
		{start: restartPair, run: runFusedCompare, done: fusedDone},
		{run: runFusedWrite},
	}
}

// fuse receives a half of a fused operation, or the command that follows a first half. The halves are adjacent in
// the queue (NVMe base 2.0, 3.4.2), and capsules arrive in the queue's order.
func (q *queue) fuse(r *request) {
	first, half := q.first, r.cmd.Flags.Fuse()
	q.first = nil
	if first != nil {
		if half == capsule.FuseSecond {
			q.startPair(first, r)
			return
		}
		first.finish(orWrong(first, capsule.StatusMissingFused))
	}
	switch {
	case half == capsule.FuseNone:
		q.begin(r)
	case half == capsule.FuseReserved || !q.executesIO() || r.cmd.Opcode == capsule.OpcodeFabrics:
		r.finish(orWrong(r, r.invalid(0, 8)))
	case half == capsule.FuseSecond:
		r.finish(orWrong(r, capsule.StatusMissingFused))
	default:
		q.first, r.stage = r, stageFused
	}
}

// halfway reports whether only the first half of a fused operation has arrived.
func (q *queue) halfway() bool { return q.first != nil }

// orWrong returns the status of a malformed capsule, or else the given status.
func orWrong(r *request, s capsule.Status) capsule.Status {
	if wrong := r.link.Wrong(); !wrong.OK() {
		return wrong
	}
	return s
}

// startPair begins a fused operation. If one half fails, the other one is aborted.
func (q *queue) startPair(first, second *request) {
	f := second.cmd.ReadWrite()
	ns, status := q.controller.view.Reach(first.cmd.NSID) // looked up once, since the namespace may be replaced at any time
	switch {
	case ns == nil:
	case !q.controller.view.Knows(ns):
		first.join(second)
		first.awaitIdentify(ns)
		return
	case ns.Gate(q.worker.lanes.Index).Shut():
		first.join(second)
		first.stage = stageGate
		ns.Gate(q.worker.lanes.Index).Hold(&first.op)
		return
	}
	switch {
	case !first.half(capsule.IOCompare, first.cmd.NSID, ns, status):
		second.finish(orWrong(second, capsule.StatusFailedFused))
	case !second.half(capsule.IOWrite, first.cmd.NSID, ns, status), !first.sameBlocks(second), !second.writable(second.op.Lane), !second.fusible():
		first.finish(capsule.StatusFailedFused)
	default:
		first.join(second)
		first.op.Op, first.op.FUA = backend.OpCompareAndWrite, first.durable(f.FUA)
		first.wantBufferOf(3 * int(first.op.Lane.Volume.Info.Stride(first.op.Length)))
	}
}

// join makes r and second the halves of one operation.
func (r *request) join(second *request) {
	r.wantExtra().partner, second.wantExtra().partner = second, r
	r.io, second.io = &r.queue.target.fused[0], &r.queue.target.fused[1]
	second.stage = stageFused
}

// restartPair restarts a pair that was held by a paused namespace.
func restartPair(q *queue, first *request) { q.startPair(first, first.part()) }

// half checks one half by itself, and completes it if that fails. If the namespace of both was not found, status
// says why.
func (r *request) half(op capsule.IOOpcode, nsid capsule.NSID, ns *storage.Namespace, status capsule.Status) bool {
	r.io = &r.queue.target.io[op]
	if wrong := r.link.Wrong(); !wrong.OK() || r.cmd.Opcode != capsule.Opcode(op) || r.cmd.NSID != nsid {
		r.finish(orWrong(r, invalidField))
		return false
	}
	if ns == nil {
		r.finish(status)
		return false
	}
	l := r.through(ns) // admits both halves or refuses them; the gate is open, so it holds neither
	return l != nil && r.blocks(l, r.cmd.ReadWrite()) && r.sized()
}

// sameBlocks compares the ranges of the halves; if they differ, it fails the second half and returns false.
func (r *request) sameBlocks(second *request) bool {
	if r.op.Offset != second.op.Offset || r.op.Length != second.op.Length || r.op.Length > maxFused {
		second.finish(invalidField)
		return false
	}
	return true
}

// fusible fails the command if the store cannot compare and write atomically.
func (r *request) fusible() bool {
	if !r.op.Lane.Volume.Info.Compare {
		r.finish(invalidField)
		return false
	}
	return true
}

// runFusedCompare has the data of the first half, and fetches that of the second.
func runFusedCompare(r *request) {
	info, second := &r.op.Lane.Volume.Info, r.extra.partner
	r.op.Buf = r.buffer.Bytes()[:3*info.Stride(r.op.Length)]
	_, next, _ := r.op.Parts(info)
	if in := second.link.InCapsule(); in != nil {
		copy(next, in)
		second.ready()
		return
	}
	r.stage, second.stage = stageFused, stageFetch
	second.fetch(next, r.buffer)
}

// runFusedWrite has the data of both halves.
func runFusedWrite(r *request) {
	r.stage = stageFused
	r.extra.partner.submit()
}

func fusedDone(r *request) {
	if r.op.Op != backend.OpFlush { // otherwise they were counted before
		r.op.Gate.Count(backend.OpRead, r.op.Length)
		r.op.Gate.Count(backend.OpWrite, r.op.Length)
	}
	if !r.settled() {
		return
	}
	second := r.part()
	r.finish(capsule.StatusSuccess)
	second.finish(capsule.StatusSuccess)
}

// part separates the two halves and returns the other one, or nil if r is no half.
func (r *request) part() *request {
	if r.extra == nil || r.extra.partner == nil {
		return nil
	}
	other := r.extra.partner
	r.extra.partner, other.extra.partner = nil, nil
	return other
}

// end completes a command that failed, and the other half of a fused operation.
func (r *request) end(s capsule.Status) {
	second := r.part()
	if second == nil {
		r.finish(s)
		return
	}
	first := r
	if r.io == &r.queue.target.fused[1] {
		first, second = second, r
	}
	switch {
	case !r.stopped.OK(): // both were aborted
		first.finish(s)
		second.finish(s)
	case s == capsule.StatusCompareFailure:
		first.finish(s)
		second.finish(capsule.StatusFailedFused)
	default: // the write failed
		first.finish(capsule.StatusFailedFused)
		second.finish(s)
	}
}
