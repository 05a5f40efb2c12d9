package command

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A stopping is what became of an attempt to end a command early.
type stopping uint8

const (
	stopNot   stopping = iota // it goes its way: the store has it, or it has ended
	stopLater                 // it ends when what is under way has ended
	stopNow                   // it has been answered
)

// stop ends a command early with a status: at once while it waits for something of
// ours, later while its data is on the way or between two operations. What the
// store has cannot be stopped.
func (r *Request) stop(s capsule.Status) stopping {
	switch r.stage {
	case stageFused:
		switch {
		case r.extra != nil && r.extra.partner != nil:
			return r.extra.partner.stop(s) // of the two that is under way
		case r.Queue.first == r:
			r.Queue.first = nil
		}
	case stageBuffer:
		r.Queue.Shard.Arena().Cancel(&r.waiter)
	case stageScratch:
		r.Queue.At.Scratch.Cancel(&r.extra.waiter)
	case stageLease:
		r.Lane.Forget(&r.Operation)
	case stageGate:
		r.Operation.Forget()
	case stageUnseen:
		r.Queue.forgetUnseen(r)
	case stageFetch:
		r.stopped = s
		return stopLater
	case stageBackend:
		switch {
		case r.Lane.Withdraw(&r.Operation):
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

// whenEnded calls f when a command that is to be stopped later has ended.
func (r *Request) whenEnded(f func()) {
	x := r.wantExtra()
	x.ended = append(x.ended, f)
}

// Abort stops the command with that identifier, and tells whether it was aborted,
// when it has been answered.
func (q *Queue) Abort(cid capsule.CID, ended func(aborted bool)) {
	for i := range q.Requests {
		r := &q.Requests[i]
		if r.stage == stageIdle || r.stage == stageAnswered || r.Cmd.CID != cid {
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

// HoldsUp reports whether a command in a namespace waits for data that its host has been
// asked for. One that waits for its turn to ask holds up nobody.
func (q *Queue) HoldsUp(ns *storage.Namespace) bool {
	return q.fetching(func(r *Request) bool { return r.Gate != nil && r.Gate.Namespace == ns && r.Link.Reading() })
}

// HoldsUpStop reports whether a command on a volume that is to be stopped waits for data of
// its host.
func (q *Queue) HoldsUpStop(v *storage.Volume) bool {
	return q.fetching(func(r *Request) bool { return !r.stopped.OK() && r.Lane != nil && r.Lane.Volume == v })
}

// fetching reports whether a command waits for data of the host, of those that f selects.
func (q *Queue) fetching(f func(*Request) bool) bool {
	for i := range q.Requests {
		if r := &q.Requests[i]; r.stage == stageFetch && f(r) {
			return true
		}
	}
	return false
}
