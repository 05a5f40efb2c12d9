package fabric

import "errors"

// fail ends the queue. The rest happens in the retry step, because fail may be called at any point of a turn.
func (q *HostQueue) fail(err error) {
	if q.state >= StateFailing || q.qp == nil {
		return
	}
	q.state, q.err = StateFailing, err
	q.slot.Retry()
}

func (h *hostConsumer) Retry() {
	q := (*HostQueue)(h)
	switch q.state {
	case StateLive:
		q.slot.Flush() // the budget has room
	case StateFailing:
		q.tearDown()
	}
}

// tearDown closes the queue pair, after which neither the provider nor the controller can access memory of the queue,
// and returns every request.
func (q *HostQueue) tearDown() {
	q.qp.Disconnect()
	q.closeWindows()
	if err := q.qp.Close(); err != nil {
		q.err = errors.Join(q.err, err)
	}
	q.state = StateClosed
	q.cfg.Shard.StopTimer(&q.watch)
	if q.cfg.Ending != nil {
		q.cfg.Ending(q.err)
	}
	for i := range q.slots {
		if s := &q.slots[i]; s.req != nil {
			r := s.req
			r.Err = q.err
			q.vacate(s, int32(i))
			r.Done(r)
		}
	}
	for s := q.line.First(); s != nil; s = q.line.First() {
		r := s.pending.First()
		s.remove(r)
		r.Err = q.err
		r.Done(r)
	}
	q.slot.Detach()
	if q.cfg.Ended != nil {
		q.cfg.Ended(q.err)
	}
}

func (q *HostQueue) closeWindows() {
	for i := range q.slots {
		if s := &q.slots[i]; s.window != nil {
			s.window.Close() // its queue pair is closed next
			s.window = nil
		}
	}
	q.spares.close()
}
