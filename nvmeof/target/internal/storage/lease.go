package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// A Lease limits the time for which groups are served whose storage cannot fence the target.
type Lease struct {
	clock  func() time.Duration // continues while the machine sleeps, but takes a system call
	until  time.Duration        // by clock
	made   time.Time            // when the lease was made, by the monotonic clock, which stops while the machine sleeps
	wall   time.Time            // the same by the wall clock, which does not stop, but may be set
	left   time.Duration        // time left when the lease was made
	groups [ana.MaxGroups + 1]bool
}

// mayHaveSlept is the difference between the wall clock and the monotonic clock above which the machine may have
// slept. When the machine wakes, the kernel advances the wall clock, and clock with it, before any process
// continues.
const mayHaveSlept = 10 * time.Millisecond

// NewLease returns a lease of groups until a time by a clock that continues while the machine sleeps. Invalid
// groups are ignored.
func NewLease(until time.Duration, clock func() time.Duration, groups []capsule.ANAGroup) *Lease {
	l := &Lease{clock: clock, until: until, made: time.Now()} // first: if the machine sleeps before clock is read, left becomes smaller
	l.wall, l.left = l.made.Round(0), until-clock()
	for _, g := range groups {
		if ana.Valid(g) {
			l.groups[g] = true
		}
	}
	return l
}

// Over reports whether the lease of a group has expired. It is false if the group has no lease.
func (l *Lease) Over(g capsule.ANAGroup) bool {
	if l == nil || !l.groups[g] {
		return false
	}
	now := time.Now()
	passed := now.Sub(l.made)
	return passed > l.left || now.Round(0).Sub(l.wall)-passed > mayHaveSlept && l.clock() > l.until
}
