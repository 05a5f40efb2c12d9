package group

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A Reason says why an ANA group has a new owner. Its text never changes.
type Reason string

// The reasons.
const (
	ReasonFree      Reason = "free"      // it had no owner
	ReasonDead      Reason = "dead"      // its owner has ended without giving it back
	ReasonDrain     Reason = "drain"     // its owner is drained, or leaves
	ReasonStuck     Reason = "stuck"     // its owner has reported that it cannot serve: see Health
	ReasonPreferred Reason = "preferred" // it went back to the preferred gateway
	ReasonBalance   Reason = "balance"   // its owner had more I/O than others
	ReasonOperator  Reason = "operator"  // the administrator has moved it
	ReasonOther     Reason = "other"     // its owner has given it away without a reason
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonFree, ReasonDead, ReasonDrain, ReasonStuck, ReasonPreferred, ReasonBalance, ReasonOperator, ReasonOther}
}

// A turnover is what this gateway knows of a change of owner in progress.
type turnover struct {
	reason Reason
	since  time.Duration // when the last heartbeat of the ended owner, or the move, was first seen
	taken  bool          // this gateway has begun to take the group, without a move
	epoch  uint64        // of the group before that
}

// over reports whether the change will not happen. The view may be older than this gateway's takeover.
func (x *turnover) over(v *view, own Incarnation, id ID) bool {
	o := v.owner(id)
	if o != nil && o.value.Incarnation == own {
		return false
	}
	if x.taken {
		return o != nil && o.value.Epoch > x.epoch
	}
	return v.move(id) == nil
}

// turnovers are the turnovers of all groups.
type turnovers map[ID]turnover

// read remembers moves, because they are deleted in the same transaction in which the owner changes.
func (t turnovers) read(v *view, own Incarnation, now time.Duration) {
	for id, x := range t {
		if x.over(v, own, id) {
			delete(t, id)
		}
	}
	for i := range v.moves {
		m := &v.moves[i]
		var id ID
		if _, err := fmt.Sscanf(strings.TrimPrefix(m.Key, movePrefix), "%d", &id); err != nil || m.err != nil {
			continue
		}
		if x, known := t[id]; !known || !x.taken && x.reason != m.value.Reason {
			t[id] = turnover{reason: m.value.Reason, since: now}
		}
	}
}

// succeed notes why this gateway is about to take an orphan.
func (e takeover) succeed(o *orphan) {
	t := turnover{reason: ReasonFree, since: e.now, taken: true}
	if o.fence != nil {
		t.reason, t.since = ReasonDead, e.observed[o.fence.value.Incarnation].at
	}
	if o.owner != nil {
		t.epoch = o.owner.value.Epoch
	}
	e.turnovers[o.group.ID] = t
}

// of returns and forgets the turnover that has made this gateway the owner of a group. The previous owner's reason has
// precedence, since the move may never have been read.
func (t turnovers) of(id ID, said Reason, now time.Duration) turnover {
	x, known := t[id]
	delete(t, id)
	if !known {
		x.since = now
	}
	x.reason = cmp.Or(said, x.reason, ReasonOther)
	return x
}
