package shard

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A Consumer owns work requests on the shard's completion queue.
type Consumer interface {
	// Complete takes the outcome of the work request whose ID was Slot.ID(tag).
	// c is valid during the call.
	Complete(c *rdmatransport.Completion, tag uint32)
	// Retry is called in the turn in which Slot.Retry was called, or in the next
	// one if that step was over, once per request.
	Retry()
	// Flush is called once in each turn in which Slot.Flush was called, to post
	// what was collected.
	Flush()
}

// A Slot connects a consumer to a shard. It is a part of the consumer and must
// not be copied while attached.
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

// Detach ends the connection: completions that still arrive are dropped, and
// the index is not used again before those at hand are.
func (t *Slot) Detach() {
	s := t.shard
	if s == nil {
		return
	}
	s.slots[t.index] = nil
	s.retired = append(s.retired, t.index)
	t.shard, t.consumer = nil, nil
}

// ID is the work request ID whose completion comes back with tag.
func (t *Slot) ID(tag uint32) uint64 { return uint64(t.index)<<32 | uint64(tag) }

// Shard is what the slot is attached to, nil when it is not.
func (t *Slot) Shard() *Shard { return t.shard }

// Retry asks for a call of the consumer's Retry.
func (t *Slot) Retry() {
	if t.shard != nil {
		t.shard.retry.add(t, &t.retry)
	}
}

// Flush asks for a call of the consumer's Flush at the end of this turn.
func (t *Slot) Flush() {
	if t.shard != nil {
		t.shard.flush.add(t, &t.flush)
	}
}

type slotLink struct{ queued bool }

// A slotList holds the slots that asked for a step, each once, in order. Two
// arrays change places, so that a slot can ask again while it is being served.
type slotList struct {
	waiting, serving []*Slot
}

func (l *slotList) add(t *Slot, link *slotLink) {
	if !link.queued {
		link.queued = true
		l.waiting = append(l.waiting, t)
	}
}

// take returns those that asked; the next call of take invalidates it.
func (l *slotList) take() []*Slot {
	l.serving, l.waiting = l.waiting, l.serving[:0]
	return l.serving
}

// serveRetries reports whether somebody stopped asking: a retry without effect is no
// reason to stay awake.
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
