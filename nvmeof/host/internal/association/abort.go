package association

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// An Aborter sends Abort commands, no more at a time than the controller carries out
// (NVMe base 2.0, 5.1), for commands that are outstanding. It belongs to the admin queue's
// loop.
type Aborter struct {
	admin   *Queue
	source  fabric.Source // Aborts do not wait behind the commands that they are to end
	limit   int           // ACL: how many at a time, beyond one
	waiting []Abort
	later   []Abort // until another one has its answer
	flying  int
	answers uint64 // to those that were sent
	over    bool   // the controller is about to be shut down
}

// An Abort is a command to be aborted. Its queue gives the identifier to no other command
// from the moment at which it says that the command is outstanding, until the Abort has
// its answer: an Abort that comes late hits nobody.
type Abort struct {
	Queue *Queue
	CID   capsule.CID
	asked uint64 // responses, when the queue was looked at
}

// SetLimit takes the controller's ACL: how many Aborts it carries out beyond one.
func (a *Aborter) SetLimit(acl uint8) {
	a.admin.Shard.Do(func() { a.limit = int(acl) })
}

// Stop forgets in the loop what was to be aborted, and takes nothing more: the controller
// is about to be shut down.
func (a *Aborter) Stop() { a.over, a.waiting, a.later = true, nil, nil }

// abort sends Abort for a command. What comes of that shows in the
// command's own completion.
func (a *Aborter) abort(one Abort) {
	a.admin.Shard.Do(func() {
		if !a.over {
			a.waiting = append(a.waiting, one)
			a.ask()
		}
	})
}

// ask has the queues of the commands that are next decide what to do.
func (a *Aborter) ask() {
	for len(a.waiting) > 0 && a.flying <= a.limit {
		one := a.waiting[0]
		a.waiting = a.waiting[1:]
		one.asked = a.answers
		asked := one.Queue.Shard.Do(func() {
			r := one.Queue.Fabric.Retain(one.CID)
			a.admin.Shard.Do(func() { a.Said(one, r) })
		})
		if asked {
			a.flying++
		}
	}
}

// Said goes on, in the loop, with what a command's queue says of it.
func (a *Aborter) Said(one Abort, r fabric.Retention) {
	switch {
	case r == fabric.RetainedOther && one.asked != a.answers && !a.over:
		a.waiting = append(a.waiting, one) // the other one may have its answer since, and nobody else comes
	case r == fabric.RetainedOther:
		a.later = append(a.later, one)
	case r == fabric.Retained && a.over:
		a.release(one)
	case r == fabric.Retained:
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminAbort)}
		capsule.Abort{SQID: one.Queue.ID, CID: one.CID}.Put(&cmd)
		answered := func(*fabric.Request) {
			a.release(one)
			a.answers++
			a.waiting, a.later = append(a.waiting, a.later...), nil
			a.flying--
			a.ask()
		}
		if a.admin.Fabric.Submit(&fabric.Request{Command: cmd, Source: &a.source, Urgency: fabric.Pressing, Done: answered}) == nil {
			return
		}
		a.waiting, a.later = nil, nil // the controller is lost, and the commands with it
	}
	a.flying--
	a.ask()
}

// release lets a command's queue use its identifier again.
func (a *Aborter) release(one Abort) {
	one.Queue.Shard.Do(func() { one.Queue.Fabric.Release(one.CID) })
}
