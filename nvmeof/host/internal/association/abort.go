package association

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// An Aborter sends Abort commands for outstanding commands, no more at a time than the controller accepts (NVMe base
// 2.0, 5.1). It is owned by the admin queue's loop.
type Aborter struct {
	admin    *Queue
	source   fabric.Source // its own, so that Aborts do not wait behind the commands that they abort
	limit    int           // ACL: maximum number of Aborts outstanding, minus one
	waiting  []Abort
	later    []Abort // retried when another Abort has completed
	inFlight int
	answers  uint64 // number of Aborts that have completed
	stopped  bool   // the controller is about to be shut down
}

// An Abort is a command to be aborted. From the moment its queue reports that the command is outstanding until the
// Abort has completed, the queue does not reuse the command identifier: an Abort that is late aborts no other command.
type Abort struct {
	Queue *Queue
	CID   capsule.CID
	asked uint64 // value of Aborter.answers when the queue was asked
}

// SetLimit sets the controller's Abort Command Limit (ACL), which is 0's based.
func (a *Aborter) SetLimit(acl uint8) {
	a.admin.Shard.Do(func() { a.limit = int(acl) })
}

// Stop drops the commands that are to be aborted, and ignores further ones, because the controller is about to be shut
// down. It is called in the loop.
func (a *Aborter) Stop() { a.stopped, a.waiting, a.later = true, nil, nil }

// abort sends Abort for a command. The result shows in the command's own completion.
func (a *Aborter) abort(one Abort) {
	a.admin.Shard.Do(func() {
		if !a.stopped {
			a.waiting = append(a.waiting, one)
			a.ask()
		}
	})
}

// ask asks the queues of the next commands, up to the limit, whether these are still outstanding.
func (a *Aborter) ask() {
	for len(a.waiting) > 0 && a.inFlight <= a.limit {
		one := a.waiting[0]
		a.waiting = a.waiting[1:]
		one.asked = a.answers
		asked := one.Queue.Shard.Do(func() {
			r := one.Queue.Fabric.Retain(one.CID)
			a.admin.Shard.Do(func() { a.Said(one, r) })
		})
		if asked {
			a.inFlight++
		}
	}
}

// Said continues, in the loop, with the answer of a command's queue.
func (a *Aborter) Said(one Abort, r fabric.Retention) {
	switch {
	case r == fabric.RetainedOther && one.asked != a.answers && !a.stopped:
		a.waiting = append(a.waiting, one) // the other Abort may have completed meanwhile, so no completion would retry this one
	case r == fabric.RetainedOther:
		a.later = append(a.later, one)
	case r == fabric.Retained && a.stopped:
		a.release(one)
	case r == fabric.Retained:
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminAbort)}
		capsule.Abort{SQID: one.Queue.ID, CID: one.CID}.Put(&cmd)
		answered := func(*fabric.Request) {
			a.release(one)
			a.answers++
			a.waiting, a.later = append(a.waiting, a.later...), nil
			a.inFlight--
			a.ask()
		}
		if a.admin.Fabric.Submit(&fabric.Request{Command: cmd, Source: &a.source, Urgency: fabric.Pressing, Done: answered}) == nil {
			return
		}
		a.waiting, a.later = nil, nil // the controller is lost, and the commands with it
	}
	a.inFlight--
	a.ask()
}

// release allows a command's queue to reuse the identifier.
func (a *Aborter) release(one Abort) {
	one.Queue.Shard.Do(func() { one.Queue.Fabric.Release(one.CID) })
}
