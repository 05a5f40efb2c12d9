package shard

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A Consumer owns work requests on the shard's completion queue.
type Consumer interface {
	// Complete receives the completion of the work request whose ID was Slot.ID(tag). c is valid during the call.
	Complete(c *rdmatransport.Completion, tag uint32)
	// Retry is called once per call of Slot.Retry, in the same turn, or in the next one if that step is over.
	Retry()
	// Flush is called once in each turn in which Slot.Flush was called, to post the collected work requests.
	Flush()
}

// A Slot connects a consumer to a shard. It is embedded in the consumer and must not be copied while attached.
type Slot struct {
	shard    *Shard
	consumer Consumer
	index    uint32
	retry    slotLink
	flush    slotLink
}

// Attach gives the consumer an index on the shard.
func (s *Shard) Attach(slot *Slot, c Consumer) {
	slot.shard, slot.consumer = s, c
	if n := len(s.vacant); n > 0 {
		slot.index = s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		s.slots[slot.index] = slot
		return
	}
	slot.index = uint32(len(s.slots))
	s.slots = append(s.slots, slot)
}

// Detach ends the connection. Completions that still arrive are dropped. The index is not reused before the current
// completions are dispatched.
func (t *Slot) Detach() {
	s := t.shard
	if s == nil {
		return
	}
	s.slots[t.index] = nil
	s.retired = append(s.retired, t.index)
	t.shard, t.consumer = nil, nil
}

// ID returns the work request ID whose completion is delivered with tag.
func (t *Slot) ID(tag uint32) uint64 { return uint64(t.index)<<32 | uint64(tag) }

// Shard returns the shard that the slot is attached to, or nil.
func (t *Slot) Shard() *Shard { return t.shard }

// Retry requests a call of the consumer's Retry.
func (t *Slot) Retry() {
	if t.shard != nil {
		t.shard.retry.add(t, &t.retry)
	}
}

// Flush requests a call of the consumer's Flush at the end of this turn.
func (t *Slot) Flush() {
	if t.shard != nil {
		t.shard.flush.add(t, &t.flush)
	}
}

type slotLink struct{ queued bool }

// A slotList holds the slots that requested a step, each once, in order. It swaps two arrays, so that a slot can make a
// new request while it is being served.
type slotList struct {
	waiting, serving []*Slot
}

func (l *slotList) add(t *Slot, link *slotLink) {
	if !link.queued {
		link.queued = true
		l.waiting = append(l.waiting, t)
	}
}

// take returns the slots that made a request. The result is valid until the next call of take.
func (l *slotList) take() []*Slot {
	l.serving, l.waiting = l.waiting, l.serving[:0]
	return l.serving
}

// serveRetries calls Retry of the slots that requested it. It reports whether at least one slot did not request it
// again: a retry without effect is no reason to stay awake.
func (s *Shard) serveRetries() bool {
	slots := s.retry.take()
	for i, t := range slots {
		slots[i] = nil
		t.retry.queued = false
		if t.consumer != nil {
			t.consumer.Retry()
		}
	}
	return len(slots) > len(s.retry.waiting)
}

func (s *Shard) serveFlushes() bool {
	slots := s.flush.take()
	for i, t := range slots {
		slots[i] = nil
		t.flush.queued = false
		if t.consumer != nil {
			t.consumer.Flush()
		}
	}
	return len(slots) > 0
}
