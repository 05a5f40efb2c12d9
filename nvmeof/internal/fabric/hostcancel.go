package fabric

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// ErrCanceled ends a request that was canceled before it was sent.
var ErrCanceled = errors.New("request was canceled before it was sent")

// Cancel cancels a request that waits to be sent, and the other command of its fused operation: Done is called with
// [ErrCanceled]. For a request that has been sent and has no response yet, it returns the identifier, for an Abort
// command.
func (q *HostQueue) Cancel(r *Request) (cid capsule.CID, sent bool) {
	if first, second := q.withdraw(r); first != nil {
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

// A Retention is the result of [HostQueue.Retain].
type Retention uint8

const (
	Retained       Retention = iota // until Release
	NotOutstanding                  // the command has its response
	RetainedOther                   // an earlier identifier of the same slot is retained: try again when it was released
)

// Retain keeps the identifier of an outstanding command from being reused until Release, even after the command's end.
// An Abort command names the identifier and may be executed late.
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

// withdraw removes from the queue a request that waits to be sent, and the other command of a fused operation.
func (q *HostQueue) withdraw(r *Request) (first, second *Request) {
	if !r.link.Linked() {
		return nil, nil
	}
	first = r
	if before := r.link.Prev(); before != nil && before.Command.Flags.Fuse() == capsule.FuseFirst {
		first, second = before, r
	} else if r.Command.Flags.Fuse() == capsule.FuseFirst {
		second = r.link.Next()
	}
	q.sourceOf(first).remove(first)
	if second != nil {
		q.sourceOf(second).remove(second)
	}
	return first, second
}
