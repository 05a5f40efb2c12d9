package host

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// cancel ends an operation early, in the loop. What has not been sent never is; what
// has been is aborted, and the operation ends when the controller has answered it or
// is lost: until then it may use the caller's memory.
func (l *lane) cancel(o *op, why error) {
	if o.stop == nil {
		o.stop = why
	}
	if !o.live {
		return
	}
	if !o.allSent() {
		o.fail(why)
	}
	l.waiting.Remove(&o.link)
	if l.waiting.First() == nil {
		l.dropSpare()
	}
	if o.flying == 0 {
		o.end()
	} else {
		l.abort(o)
	}
	l.serve()
}

// abort takes back or aborts the commands of an operation. The operation may end
// meanwhile, when no chunk is its any more.
func (l *lane) abort(o *op) {
	for i := range l.all {
		c := &l.all[i]
		if c.op != o {
			continue
		}
		if cid, sent := l.queue.Cancel(&c.request); sent {
			l.controller.abort(l.link, cid)
		}
	}
}

// dropSpare forgets a buffer that nothing waits for.
func (l *lane) dropSpare() {
	l.pool.arena.Cancel(&l.waiter)
	if l.spare.Valid() {
		l.pool.release(l.spare)
		l.spare = shard.Buffer{}
	}
}

// An aborter sends Abort commands, no more at a time than the controller carries out
// (NVMe base 2.0, 5.1), for commands that are outstanding. It belongs to the admin queue's
// loop.
type aborter struct {
	waiting []abort
	later   []abort // until another one has its answer
	flying  int
	answers uint64 // to those that were sent
	over    bool   // the controller is about to be shut down
}

// An abort is a command to be aborted. Its queue gives the identifier to no other command
// from the moment at which it says that the command is outstanding, until the Abort has
// its answer: an Abort that comes late hits nobody.
type abort struct {
	link  *link
	cid   capsule.CID
	asked uint64 // answers, when the queue was asked
}

// abort asks the controller to end a command early. What comes of that shows in the
// command's own completion.
func (c *Controller) abort(l *link, cid capsule.CID) {
	c.admin.shard.Do(func() {
		if !c.aborts.over {
			c.aborts.waiting = append(c.aborts.waiting, abort{link: l, cid: cid})
			c.sendAborts()
		}
	})
}

func (c *Controller) sendAborts() {
	a := &c.aborts
	for len(a.waiting) > 0 && a.flying <= int(c.identify.ACL) { // ACL is one less
		one := a.waiting[0]
		a.waiting = a.waiting[1:]
		one.asked = a.answers
		asked := one.link.shard.Do(func() {
			r := one.link.queue.Retain(one.cid)
			c.admin.shard.Do(func() { c.sendAbort(one, r) })
		})
		if asked {
			a.flying++
		}
	}
}

// sendAbort goes on with what a command's queue says of it.
func (c *Controller) sendAbort(one abort, r fabric.Retention) {
	a := &c.aborts
	switch {
	case r == fabric.RetainedOther && one.asked != a.answers && !a.over:
		a.waiting = append(a.waiting, one) // the other one may have its answer since, and nobody else comes
	case r == fabric.RetainedOther:
		a.later = append(a.later, one)
	case r == fabric.Retained && a.over:
		c.release(one)
	case r == fabric.Retained:
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminAbort)}
		capsule.Abort{SQID: one.link.qid, CID: one.cid}.Put(&cmd)
		answered := func(*fabric.Request) {
			c.release(one)
			a.answers++
			a.waiting, a.later = append(a.waiting, a.later...), nil
			a.flying--
			c.sendAborts()
		}
		if c.admin.queue.Submit(&fabric.Request{Command: cmd, Done: answered}) == nil {
			return
		}
		a.waiting, a.later = nil, nil // the controller is lost, and the commands with it
	}
	a.flying--
	c.sendAborts()
}

// release lets a command's queue use its identifier again.
func (c *Controller) release(one abort) {
	one.link.shard.Do(func() { one.link.queue.Release(one.cid) })
}
