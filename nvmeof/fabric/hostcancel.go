package fabric

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// ErrCanceled ends a request that was taken back before it was sent.
var ErrCanceled = errors.New("request was canceled before it was sent")

// Cancel takes back a request that waits to be sent, with the other half of its
// fused operation: Done is called with [ErrCanceled]. Of one that has been sent and
// has no answer yet it returns the identifier, for an Abort command.
func (q *HostQueue) Cancel(r *Request) (cid capsule.CID, sent bool) {
	if first, second := q.pending.remove(r); first != nil {
		for _, r := range []*Request{first, second} {
			if r != nil {
				r.Err = ErrCanceled
				r.Done(r)
			}
		}
		return 0, false
	}
	for i := range q.slots {
		if s := &q.slots[i]; s.req == r {
			return s.cid, !s.answered
		}
	}
	return 0, false
}

// A Retention is what became of [HostQueue.Retain].
type Retention uint8

const (
	Retained       Retention = iota // until Release
	NotOutstanding                  // the command has its answer
	RetainedOther                   // an earlier identifier of the same slot is: try again when that was released
)

// Retain keeps the identifier of an outstanding command from being given to another one
// until Release, however long that is after the command's end: an Abort command names it,
// and may be carried out late.
func (q *HostQueue) Retain(cid capsule.CID) Retention {
	at := int(cid & (1<<q.slotBits - 1))
	switch {
	case at >= len(q.slots) || q.slots[at].req == nil || q.slots[at].cid != cid || q.slots[at].answered:
		return NotOutstanding
	case q.slots[at].retains:
		return RetainedOther
	}
	q.slots[at].retained, q.slots[at].retains = cid, true
	return Retained
}

// Release ends a retention.
func (q *HostQueue) Release(cid capsule.CID) { q.slots[cid&(1<<q.slotBits-1)].retains = false }

// A requestList holds requests that wait to be sent, in order.
type requestList struct {
	first, last *Request
}

func (l *requestList) push(r *Request) {
	r.next = nil
	if l.last == nil {
		l.first = r
	} else {
		l.last.next = r
	}
	l.last = r
}

func (l *requestList) pop() *Request {
	r := l.first
	if r != nil {
		l.first = r.next
		if l.first == nil {
			l.last = nil
		}
		r.next = nil
	}
	return r
}

// remove takes a request out of the list, and the other half of a fused one.
func (l *requestList) remove(r *Request) (first, second *Request) {
	var before *Request
	for at := l.first; at != nil; before, at = at, at.next {
		fused := at.Command.Flags.Fuse() == capsule.FuseFirst && at.next != nil
		if at != r && !(fused && at.next == r) {
			continue
		}
		last := at
		if fused {
			second, last = at.next, at.next
		}
		l.cut(before, last)
		return at, second
	}
	return nil, nil
}

// cut takes out what stands between before, or the beginning, and last.
func (l *requestList) cut(before, last *Request) {
	rest := last.next
	if before == nil {
		l.first = rest
	} else {
		before.next = rest
	}
	if rest == nil {
		l.last = before
	}
}
