package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A stopping is the result of an attempt to end a command early.
type stopping uint8

const (
	stopNot   stopping = iota // it completes as usual: the store has it, or it has completed
	stopLater                 // it ends when the current operation has
	stopNow                   // it has completed
)

// stop is tryStop that also counts a command that ends early.
func (r *request) stop(s capsule.Status) stopping {
	io := r.io != nil
	how := r.tryStop(s)
	if how != stopNot && io {
		r.queue.target.causes.Count(meter.Aborts, "", abortCauses[s.Code()], "")
	}
	return how
}

// tryStop ends a command early with a status: at once while it waits for a resource of the target, later while its
// data is transferred or between two operations. An operation that was submitted to the store cannot be stopped.
func (r *request) tryStop(s capsule.Status) stopping {
	switch r.stage {
	case stageFused:
		switch {
		case r.extra != nil && r.extra.partner != nil:
			return r.extra.partner.stop(s) // the second half is the active one
		case r.queue.first == r:
			r.queue.first = nil
		}
	case stageBuffer:
		r.waiter.Cancel()
	case stageScratch:
		r.extra.waiter.Cancel()
	case stageLease:
		r.op.Lane.Forget(&r.op)
	case stageGate:
		r.op.Forget()
	case stageUnseen:
		r.queue.forgetUnseen(r)
	case stageFetch:
		r.stopped = s
		return stopLater
	case stageBackend:
		switch {
		case r.op.Lane.Withdraw(&r.op):
		case r.io.step != nil:
			r.stopped = s
			return stopLater
		default:
			return stopNot
		}
	default:
		return stopNot
	}
	r.stopped = s
	r.end(s)
	return stopNow
}

// abortCauses are the labels of the causes for which commands end early, by their status.
var abortCauses = map[capsule.Status]string{
	capsule.StatusAbortRequested: "host", capsule.StatusSQDeleted: "disconnect", capsule.StatusAbortedByPreempt: "preempt",
	capsule.StatusAccessDenied: "withdrawn",
}

// whenEnded calls f when a command that is stopping has ended.
func (r *request) whenEnded(f func()) {
	x := r.wantExtra()
	x.ended = append(x.ended, f)
}

// abort stops the command with that identifier. It calls ended when the command has completed, with whether it was
// aborted.
func (q *queue) abort(cid capsule.CID, ended func(aborted bool)) {
	for i := range q.requests {
		r := &q.requests[i]
		if r.stage == stageIdle || r.stage == stageAnswered || r.cmd.CID != cid {
			continue
		}
		switch r.stop(capsule.StatusAbortRequested | capsule.StatusDNR) {
		case stopNow:
			ended(true)
		case stopLater:
			r.whenEnded(func() { ended(true) })
		default:
			ended(false)
		}
		return
	}
	ended(false)
}

// holdsUp reports whether a command in a namespace that which selects waits for an RDMA READ of its
// data, or for the acknowledgement of data that cannot be copied. A command whose READ is still queued does not
// count.
func (q *queue) holdsUp(which func(*storage.Namespace) bool) bool {
	for i := range q.requests {
		r := &q.requests[i]
		if r.stage == stageAnswered && r.op.Gate != nil && which(r.op.Gate.Namespace) && !r.copyOut() {
			return true
		}
	}
	return q.fetching(func(r *request) bool { return r.op.Gate != nil && which(r.op.Gate.Namespace) && r.link.Reading() })
}

// holdsUpStop reports whether a command on a volume that is stopping waits for an RDMA READ of its data.
func (q *queue) holdsUpStop(v *storage.Volume) bool {
	return q.fetching(func(r *request) bool { return !r.stopped.OK() && r.op.Lane != nil && r.op.Lane.Volume == v })
}

// fetching reports whether a command that f selects waits for an RDMA READ of its data.
func (q *queue) fetching(f func(*request) bool) bool {
	for i := range q.requests {
		if r := &q.requests[i]; r.stage == stageFetch && f(r) {
			return true
		}
	}
	return false
}
