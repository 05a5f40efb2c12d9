package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// A Lease is until when groups are served whose storage cannot fence the target.
type Lease struct {
	clock  func() time.Duration // goes on while the machine sleeps, and takes a system call
	until  time.Duration        // by that
	made   time.Time            // by the monotonic clock, which stands still meanwhile
	wall   time.Time            // the same by the wall clock, which does not, and which somebody may set
	left   time.Duration        // then
	groups [ana.MaxGroups + 1]bool
}

// mayHaveSlept is by how much more than the monotonic clock the wall clock has gone on where the machine may have slept: the
// kernel moves it as it wakes, with the one that is asked then, before any process goes on.
const mayHaveSlept = 10 * time.Millisecond

// NewLease returns a lease of groups, until a time by a clock that goes on while the machine sleeps. Groups that are not
// valid have none.
func NewLease(until time.Duration, clock func() time.Duration, groups []capsule.ANAGroup) *Lease {
	l := &Lease{clock: clock, until: until, made: time.Now()} // before the clock is read: a machine that sleeps in between leaves no time
	l.wall, l.left = l.made.Round(0), until-clock()
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
	passed := now.Sub(l.made)
	return passed > l.left || now.Round(0).Sub(l.wall)-passed > mayHaveSlept && l.clock() > l.until
}
