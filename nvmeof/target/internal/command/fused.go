package command

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// MaxFused is the most bytes of a fused Compare and Write. NACWU promises one
// block; ACWU allows to refuse what is longer than it.
const MaxFused = 64 << 10

// fusedRows are what the halves do once both are here. The first one has the
// memory and the operation of both.
func fusedRows() [2]Row {
	return [2]Row{
		{Start: restartPair, run: runFusedCompare, done: fusedDone},
		{run: runFusedWrite},
	}
}

// Fuse takes a command that is a half of a fused operation, or that follows a first
// half. Halves are adjacent in the queue (NVMe base 2.0, 3.4.2), which capsules
// arrive in the order of.
func (q *Queue) Fuse(r *Request) {
	first, half := q.first, r.Cmd.Flags.Fuse()
	q.first = nil
	if first != nil {
		if half == capsule.FuseSecond {
			q.startPair(first, r)
			return
		}
		first.Finish(orWrong(first, capsule.StatusMissingFused))
	}
	switch {
	case half == capsule.FuseNone:
		q.Owner.Begin(r)
	case half == capsule.FuseReserved || q.Client == nil || r.Cmd.Opcode == capsule.OpcodeFabrics:
		r.Finish(orWrong(r, r.Invalid(0, 8)))
	case half == capsule.FuseSecond:
		r.Finish(orWrong(r, capsule.StatusMissingFused))
	default:
		q.first, r.stage = r, stageFused
	}
}

// Halfway reports whether the first half of a fused operation has come.
func (q *Queue) Halfway() bool { return q.first != nil }

// orWrong is what was found wrong with the capsule, or else the status given.
func orWrong(r *Request, s capsule.Status) capsule.Status {
	if wrong := r.Link.Wrong(); !wrong.OK() {
		return wrong
	}
	return s
}

// startPair begins a fused operation. Where one half fails the other one is
// aborted for it.
func (q *Queue) startPair(first, second *Request) {
	f := second.Cmd.ReadWrite()
	switch ns, _ := q.View.Reach(first.Cmd.NSID); {
	case ns == nil:
	case !q.View.Knows(ns):
		first.join(second)
		first.awaitSight(ns)
		return
	case ns.Gate(q.At.Index).Shut():
		first.join(second)
		first.stage = stageGate
		ns.Gate(q.At.Index).Hold(&first.Operation)
		return
	}
	switch {
	case !first.half(capsule.IOCompare, first.Cmd.NSID):
		second.Finish(orWrong(second, capsule.StatusFailedFused))
	case !second.half(capsule.IOWrite, first.Cmd.NSID), !first.sameBlocks(second), !second.writable(second.Lane), !second.fusible():
		first.Finish(capsule.StatusFailedFused)
	default:
		first.join(second)
		first.Op, first.FUA = backend.OpCompareAndWrite, first.durable(f.FUA)
		first.wantBufferOf(3 * int(first.Lane.Volume.Info.Stride(first.Length)))
	}
}

// join makes two halves one operation, of which the first is under way.
func (r *Request) join(second *Request) {
	r.wantExtra().partner, second.wantExtra().partner = second, r
	r.io, second.io = &r.Queue.Tables.fused[0], &r.Queue.Tables.fused[1]
	second.stage = stageFused
}

// restartPair is for a pair that a paused namespace held.
func restartPair(q *Queue, first *Request) { q.startPair(first, first.part()) }

// half judges one half by itself, and answers it if it fails.
func (r *Request) half(op capsule.IOOpcode, nsid capsule.NSID) bool {
	r.io = &r.Queue.Tables.IO[op]
	if wrong := r.Link.Wrong(); !wrong.OK() || r.Cmd.Opcode != capsule.Opcode(op) || r.Cmd.NSID != nsid {
		r.Finish(orWrong(r, invalidField))
		return false
	}
	l := r.enter(r.Cmd.NSID)
	return l != nil && r.blocks(l, r.Cmd.ReadWrite()) && r.sized()
}

// sameBlocks judges the halves against each other; the second is answered if they
// differ.
func (r *Request) sameBlocks(second *Request) bool {
	if r.Offset != second.Offset || r.Length != second.Length || r.Length > MaxFused {
		second.Finish(invalidField)
		return false
	}
	return true
}

// fusible refuses stores that cannot compare and write in one piece.
func (r *Request) fusible() bool {
	if !r.Lane.Volume.Info.Compare {
		r.Finish(invalidField)
		return false
	}
	return true
}

// runFusedCompare has the data of the first half, and gets that of the second.
func runFusedCompare(r *Request) {
	info, second := &r.Lane.Volume.Info, r.extra.partner
	r.Buf = r.buffer.Bytes()[:3*info.Stride(r.Length)]
	_, next, _ := r.Parts(info)
	if in := second.Link.InCapsule(); in != nil {
		copy(next, in)
		second.Ready()
		return
	}
	r.stage, second.stage = stageFused, stageFetch
	second.fetch(next)
}

// runFusedWrite has the data of both halves.
func runFusedWrite(r *Request) {
	r.stage = stageFused
	r.extra.partner.submit()
}

func fusedDone(r *Request) {
	r.Gate.Count(backend.OpRead, r.Length)
	r.Gate.Count(backend.OpWrite, r.Length)
	second := r.part()
	r.Finish(capsule.StatusSuccess)
	second.Finish(capsule.StatusSuccess)
}

// part ends the connection of two halves and returns the other one, or nil.
func (r *Request) part() *Request {
	if r.extra == nil || r.extra.partner == nil {
		return nil
	}
	other := r.extra.partner
	r.extra.partner, other.extra.partner = nil, nil
	return other
}

// end answers a command that failed, and the other half of a fused operation.
func (r *Request) end(s capsule.Status) {
	second := r.part()
	if second == nil {
		r.Finish(s)
		return
	}
	first := r
	if r.io == &r.Queue.Tables.fused[1] {
		first, second = second, r
	}
	switch {
	case !r.stopped.OK(): // both were
		first.Finish(s)
		second.Finish(s)
	case s == capsule.StatusCompareFailure:
		first.Finish(s)
		second.Finish(capsule.StatusFailedFused)
	default: // the write's
		first.Finish(capsule.StatusFailedFused)
		second.Finish(s)
	}
}
