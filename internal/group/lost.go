package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A loss is that the store has lost what it had, as one that was restored from a copy. Gateways may own what somebody else owns by
// what it has now, of whom nothing keeps them but that they see it. So each stops what is not its own any more, and until all others
// have had the time for that takes nothing, gives nothing away, and does not register. Leases of who does not reach the store end
// in that time, too.
type loss struct {
	seen state.Revision // the latest of the store that this gateway knows of
	over time.Duration  // when changes are made again; 0: nothing was lost
}

// sees notes a revision of the store.
func (l *loss) sees(r state.Revision) { l.seen = max(l.seen, r) }

// A floor is what a read that begins has to find.
type floor struct {
	store state.Revision
	beat  state.Revision // of this gateway's own heartbeat, unless somebody has removed that; 0: none was carried out
}

// A witness is who notices a loss.
type witness struct{ *Engine }

func (e witness) floor() floor {
	f := floor{store: max(e.loss.seen, e.view.revision)}
	if e.beats.through {
		f.beat = e.beats.carried
	}
	return f
}

// missed reports whether a read proves that the store has lost something. The revision of a store that others use too may
// have grown meanwhile: that of the own heartbeat has not.
func (e witness) missed(f floor, s state.Snapshot) bool {
	if s.Revision < f.store {
		return true
	}
	own := beatKey(e.cfg.Name)
	for i := range s.Entries {
		if s.Entries[i].Key == own && s.Entries[i].Revision < f.beat {
			return true
		}
	}
	return false
}

// lose begins anew with what the store has. The same revision of a key may have another value now.
func (e witness) lose() {
	e.loss = loss{over: e.now + e.cfg.LeaseTerm + e.cfg.Term}
	e.view, e.pulses = view{}, map[Incarnation]pulse{}
	e.store.restart(e.now)
	e.beats.unsure, e.beats.carried = true, 0
	e.alarm(Alarm{Kind: AlarmStore, Text: "the store has lost what it had: was it restored from a copy? What other gateways own by that is not served here any more, and nothing moves for a while; " +
		"stop gateways that do not reach the store, which go on with what they had"})
}

// lost reports whether the store has lost something lately. Until that is over groups are only given up.
func (e witness) lost() bool {
	if e.now >= e.loss.over {
		return false
	}
	e.at(e.loss.over)
	return true
}
