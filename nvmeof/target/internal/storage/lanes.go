package storage

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/backend"
)

// lanes has the lanes of a shard that have something to do. Each turn polls only these, since there is a lane for
// every volume, perhaps a thousand. It belongs to the shard, of which it is a [shard.Poller].
type lanes struct {
	busy []*Lane

	// Scratch space for the lane that is being polled, one at a time.
	batch   []backend.Request
	results [64]backend.Result
}

func (ls *lanes) add(l *Lane) {
	l.listed = true
	ls.busy = append(ls.busy, l)
}

func (ls *lanes) remove(l *Lane) {
	if l.listed {
		ls.drop(slices.Index(ls.busy, l))
	}
}

// drop removes lane i. The last lane takes its index, and misses a turn if the lanes are being polled.
func (ls *lanes) drop(i int) {
	last := len(ls.busy) - 1
	ls.busy[i].listed = false
	ls.busy[i], ls.busy[last] = ls.busy[last], nil
	ls.busy = ls.busy[:last]
}

// Poll implements [shard.Poller]. The set of lanes may change during the call.
func (ls *lanes) Poll() (useful bool) {
	for i := 0; i < len(ls.busy); i++ {
		if l := ls.busy[i]; l.users > 0 || l.armed {
			useful = l.Poll() || useful
		} else {
			ls.drop(i)
			i--
		}
	}
	return useful
}

// Arm implements [shard.Poller].
func (ls *lanes) Arm() bool {
	for _, l := range ls.busy {
		if !l.Arm() {
			return false
		}
	}
	return true
}
