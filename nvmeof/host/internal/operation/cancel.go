package operation

// Cancel ends an operation early, in the loop. What has not been sent never is; what
// has been is aborted, and the operation ends when the controller has answered it or
// is lost: until then it may use the caller's memory.
func (q *IOQueue) Cancel(o *Op, why error) {
	if o.Stop == nil {
		o.Stop = why
	}
	if !o.live {
		return
	}
	if !o.allSent() {
		o.fail(why)
	}
	l := o.lane
	l.waiting.Remove(&o.link)
	if l.waiting.First() == nil {
		l.rest()
	}
	if o.flying == 0 {
		o.end()
	} else {
		q.abort(o)
	}
	q.serve()
}

// abort takes back or aborts the commands of an operation. The operation may end
// meanwhile, when no chunk is its any more.
func (q *IOQueue) abort(o *Op) {
	for i := range q.all {
		c := &q.all[i]
		if c.op != o {
			continue
		}
		q.Queue.CancelRequest(&c.request)
	}
}
