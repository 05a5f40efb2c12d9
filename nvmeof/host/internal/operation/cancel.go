package operation

// Cancel ends an operation early; it must be called in the loop. Commands that have not been sent never are. Commands
// that have been sent are aborted, and the operation ends when they have completed or the controller is lost: until
// then it may use the caller's memory.
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
	if o.inFlight == 0 {
		o.end()
	} else {
		q.abort(o)
	}
	q.serve()
}

// abort withdraws or aborts the commands of an operation. The operation may end during the loop; then no chunk refers
// to it any more.
func (q *IOQueue) abort(o *Op) {
	for i := range q.all {
		c := &q.all[i]
		if c.op != o {
			continue
		}
		q.Queue.CancelRequest(&c.request)
	}
}
