package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A loss says that the store has lost entries, for example because it was restored from a copy. Then several gateways
// may serve the same group, and only they themselves can detect that. So each gateway stops what it no longer owns.
// Until all others have had the time for that, it takes nothing, gives nothing away, and does not register. The leases
// of gateways that do not reach the store end in that time, too.
type loss struct {
	seen state.Revision // the latest known revision of the store
	over time.Duration  // when changes are made again; 0: nothing was lost
}

// sees notes a revision of the store.
func (l *loss) sees(r state.Revision) { l.seen = max(l.seen, r) }

// A floor is the minimum that a new read must find.
type floor struct {
	store state.Revision
	beat  state.Revision // revision of this gateway's own heartbeat, if its key exists; 0: none was executed
}

// A lossDetector is the part of an engine that detects a loss of entries of the store.
type lossDetector struct{ *Engine }

func (e lossDetector) floor() floor {
	f := floor{store: max(e.loss.seen, e.view.revision)}
	if e.beats.through {
		f.beat = e.beats.carried
	}
	return f
}

// missed reports whether a read proves that the store has lost entries. If other users share the store, its revision
// may have grown again; that of the own heartbeat has not.
func (e lossDetector) missed(f floor, s state.Snapshot) bool {
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

// lose starts over with the store's present content. The same revision of a key may have a different value now.
func (e lossDetector) lose() {
	e.loss = loss{over: e.now + e.cfg.LeaseTerm + e.cfg.Term}
	e.view, e.observed = view{}, map[Incarnation]observation{}
	e.store.restart(e.now)
	e.beats.unsure, e.beats.carried = true, 0
	e.alarm(Alarm{Kind: AlarmStore, Text: "the group's store has lost entries: was it restored from a backup? ANA groups that other gateways own according to it are no longer served here, and no ANA group moves for a while; " +
		"stop gateways that cannot reach the store, because they continue to serve what they owned before"})
}

// lost reports whether the store has lost entries recently. While it does, groups are only given up.
func (e lossDetector) lost() bool {
	if e.now >= e.loss.over {
		return false
	}
	e.at(e.loss.over)
	return true
}
