package operation

import "github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"

// Cancel ends an operation early, in the loop. What has not been sent never is; what
// has been is aborted, and the operation ends when the controller has answered it or
// is lost: until then it may use the caller's memory.
func (l *Lane) Cancel(o *Op, why error) {
	if o.Stop == nil {
		o.Stop = why
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
func (l *Lane) abort(o *Op) {
	for i := range l.all {
		c := &l.all[i]
		if c.op != o {
			continue
		}
		l.Queue.CancelRequest(&c.request)
	}
}

// dropSpare forgets a buffer that nothing waits for.
func (l *Lane) dropSpare() {
	l.Queue.Pool.Arena.Cancel(&l.waiter)
	if l.spare.Valid() {
		l.Queue.Pool.Release(l.spare)
		l.spare = shard.Buffer{}
	}
}
