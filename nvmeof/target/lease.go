package target

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// A lease is until when groups are served whose storage cannot fence the target.
type lease struct {
	until, wall time.Time // by the monotonic clock, and by the other, which goes on while the machine sleeps
	groups      [ana.MaxGroups + 1]bool
}

// Extend has the target serve groups until a time at most, and all others without such a limit: it
// replaces what an earlier call said. The time is looked at as each command begins, so that a
// process that was stopped, and goes on later, begins none after it. Where the machine holds up
// a command after that look, it can still take effect later.
func (g *Gateway) Extend(until time.Time, groups []capsule.ANAGroup) {
	if len(groups) == 0 {
		g.lease.Store(nil)
		return
	}
	l := &lease{until: until, wall: time.Now().Round(0).Add(time.Until(until))}
	for _, group := range groups {
		if ana.Valid(group) {
			l.groups[group] = true
		}
	}
	g.lease.Store(l)
}

// lapsed reports whether the time is over for which the target serves a group.
func (g *Gateway) lapsed(group capsule.ANAGroup) bool {
	if g == nil {
		return false
	}
	l := g.lease.Load()
	if l == nil || !l.groups[group] {
		return false
	}
	now := time.Now()
	return now.After(l.until) || now.Round(0).After(l.wall)
}
