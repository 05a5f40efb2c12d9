package group

import "time"

// A refusal is what is known of a store that answers reads and executes no change, for example because it is full, or
// because it does not allow that to the gateway.
type refusal struct {
	since time.Duration // since when reads succeed and no transaction does; 0: the last transaction was answered
	err   error         // of the last transaction
}

// tried notes the result of a transaction.
func (r *refusal) tried(now time.Duration, err error) {
	switch {
	case err == nil:
		*r = refusal{}
	case r.since == 0:
		r.since = max(now, 1)
	}
	r.err = err
}

// unread notes that a read has failed: the store does not answer, which is another matter.
func (r *refusal) unread(now time.Duration) {
	if r.since > 0 {
		r.since = max(now, 1)
	}
}

// refusedFor is how long transactions must fail before that is reported, in units of Interval.
const refusedFor = 10

// report says that the store executes no change.
func (r *refusal) report(e *Engine) {
	if r.since == 0 {
		return
	}
	over := r.since + refusedFor*e.cfg.Interval
	switch {
	case e.now < over:
		e.at(over)
	case max(e.store.all.at, e.store.beats.at) > r.since:
		e.alarm(Alarm{Kind: AlarmReadOnly, Gateway: e.cfg.Name, Text: "the group's store answers reads, but executes no changes: " + r.err.Error() +
			"; until it does, no ANA group moves, no gateway that fails is replaced, and namespaces with fence: lease stop: check whether the store is full, and whether this gateway may write to it"})
	}
}
