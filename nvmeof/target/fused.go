package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// maxFused is the most bytes of a fused Compare and Write. NACWU promises one
// block; ACWU allows to refuse what is longer than it.
const maxFused = 64 << 10

// fusedRows has the rows of the two halves once both have arrived. The first half has the
// memory and the operation of both.
func fusedRows() [2]ioRow {
	return [2]ioRow{
		{start: restartPair, run: runFusedCompare, done: fusedDone},
		{run: runFusedWrite},
	}
}

// fuse receives a half of a fused operation, or the command that follows a first half.
// Halves are adjacent in the queue (NVMe base 2.0, 3.4.2), in whose order capsules
// arrive.
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

// halfway reports whether the queue has the first half of a fused operation only.
func (q *queue) halfway() bool { return q.first != nil }

// orWrong is the status of a malformed capsule, or else the status given.
func orWrong(r *request, s capsule.Status) capsule.Status {
	if wrong := r.link.Wrong(); !wrong.OK() {
		return wrong
	}
	return s
}

// startPair begins a fused operation. If one half fails the other is aborted.
func (q *queue) startPair(first, second *request) {
	f := second.cmd.ReadWrite()
	ns, status := q.controller.view.Reach(first.cmd.NSID) // once: another one may take its place at any time
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

// join makes two halves one operation, whose first half is under way.
func (r *request) join(second *request) {
	r.wantExtra().partner, second.wantExtra().partner = second, r
	r.io, second.io = &r.queue.target.fused[0], &r.queue.target.fused[1]
	second.stage = stageFused
}

// restartPair starts a pair again that a paused namespace held.
func restartPair(q *queue, first *request) { q.startPair(first, first.part()) }

// half checks one half by itself, and completes it if that fails. Where the namespace of both was not found
// the status says why.
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
	l := r.through(ns) // which lets both in, or refuses them: it holds neither
	return l != nil && r.blocks(l, r.cmd.ReadWrite()) && r.sized()
}

// sameBlocks compares the ranges of the halves; if they differ it completes the second.
func (r *request) sameBlocks(second *request) bool {
	if r.op.Offset != second.op.Offset || r.op.Length != second.op.Length || r.op.Length > maxFused {
		second.finish(invalidField)
		return false
	}
	return true
}

// fusible refuses stores that cannot compare and write atomically.
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
	if r.op.Op != backend.OpFlush { // else they were counted
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

// part separates two halves and returns the other one, or nil.
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
	case !r.stopped.OK(): // both were stopped
		first.finish(s)
		second.finish(s)
	case s == capsule.StatusCompareFailure:
		first.finish(s)
		second.finish(capsule.StatusFailedFused)
	default: // the write's
		first.finish(capsule.StatusFailedFused)
		second.finish(s)
	}
}
