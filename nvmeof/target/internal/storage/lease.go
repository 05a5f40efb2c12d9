package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// A Lease is until when groups are served whose storage cannot fence the target.
type Lease struct {
	until, wall time.Time // by the monotonic clock, and by the other, which goes on while the machine sleeps
	groups      [ana.MaxGroups + 1]bool
}

// NewLease returns a lease of groups. Those that are not valid have none.
func NewLease(until time.Time, groups []capsule.ANAGroup) *Lease {
	l := &Lease{until: until, wall: time.Now().Round(0).Add(time.Until(until))}
	for _, g := range groups {
		if ana.Valid(g) {
			l.groups[g] = true
		}
	}
	return l
}

// Over reports whether the time is over for which a group is served. Without a lease it never
// is.
func (l *Lease) Over(g capsule.ANAGroup) bool {
	if l == nil || !l.groups[g] {
		return false
	}
	now := time.Now()
	return now.After(l.until) || now.Round(0).After(l.wall)
}
