package host

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
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
	l.waiting.remove(o)
	if l.waiting.first == nil {
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
			l.controller.abort(capsule.Abort{SQID: l.qid, CID: cid})
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
// (NVMe base 2.0, 5.1). It belongs to the admin queue's loop.
type aborter struct {
	waiting []capsule.Abort
	flying  int
	over    bool // the controller is about to be shut down
}

// abort asks the controller to end a command early. What comes of that shows in the
// command's own completion.
func (c *Controller) abort(a capsule.Abort) {
	c.admin.shard.Do(func() {
		if !c.aborts.over {
			c.aborts.waiting = append(c.aborts.waiting, a)
			c.sendAborts()
		}
	})
}

func (c *Controller) sendAborts() {
	a := &c.aborts
	for len(a.waiting) > 0 && a.flying <= int(c.identify.ACL) { // ACL is one less
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminAbort)}
		a.waiting[0].Put(&cmd)
		a.waiting = a.waiting[1:]
		r := &fabric.Request{Command: cmd, Done: func(*fabric.Request) {
			a.flying--
			c.sendAborts()
		}}
		if c.admin.queue.Submit(r) != nil {
			a.waiting = nil // the controller is lost, and the commands with it
			return
		}
		a.flying++
	}
}
