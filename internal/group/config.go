package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config is what a gateway is. Zero values are the defaults.
type Config struct {
	Name      string   // required: the same after each start
	Addresses []string // which hosts connect to

	Interval     time.Duration // between heartbeats; 0: 500 ms
	Term         time.Duration // of silence, after which a gateway is fenced; 0: four intervals
	LeaseTerm    time.Duration // of groups whose backend is a lease; 0: 10 s
	DrainTimeout time.Duration // of a group that is moved, or opened, since one was last; 0: 10 s
	LeaveTimeout time.Duration // of a gateway that leaves, after which it ends all the same; 0: 30 s
	FenceRenew   time.Duration // between fences of an incarnation that may still exist; 0: 10 min
	Settle       time.Duration // between moves for balance; 0: 5 s
	MaxMoves     int           // for balance, at a time; 0: 4; four times as many where there is no I/O
	Slots        int           // ranges of controller identifiers; 0: 32
}

// A Group is an ANA group, as it is configured.
type Group struct {
	ID        ID
	Backend   Backend
	Preferred string // the gateway that owns it while it can; of None: the only one that does
}

// controllerIDs is how many identifiers there are: 1 to FFEFh (NVMe base 2.0, figure 33).
const controllerIDs = 0xffef

// ControllerIDs is the range of a slot, of as many as there are: 2,047 identifiers of 32.
func ControllerIDs(slot, slots int) (first, last uint16) {
	n := controllerIDs / cmp.Or(slots, defaultSlots)
	return uint16((slot-1)*n + 1), uint16(slot * n)
}

const (
	defaultSlots = 32
	maxName      = 200
)

// withDefaults also refuses what makes no sense.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" || len(c.Name) > maxName || strings.ContainsAny(c.Name, "/ \t\n") {
		return c, fmt.Errorf("name of the gateway %q: 1 to %d bytes without a slash or space", c.Name, maxName)
	}
	c.Interval = cmp.Or(c.Interval, 500*time.Millisecond)
	c.Term = cmp.Or(c.Term, 4*c.Interval)
	c.LeaseTerm = cmp.Or(c.LeaseTerm, 10*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.LeaveTimeout = cmp.Or(c.LeaveTimeout, 30*time.Second)
	c.FenceRenew = cmp.Or(c.FenceRenew, 10*time.Minute)
	c.Settle = cmp.Or(c.Settle, 5*time.Second)
	c.MaxMoves = cmp.Or(c.MaxMoves, 4)
	c.Slots = cmp.Or(c.Slots, defaultSlots)
	if c.Term < 3*c.Interval {
		return c, fmt.Errorf("term of %v: at least three intervals of %v, since a heartbeat may be late", c.Term, c.Interval)
	}
	return c, nil
}

// groups are sorted.
type groups []Group

func (g groups) find(id ID) *Group {
	i, ok := slices.BinarySearchFunc(g, id, func(g Group, id ID) int { return cmp.Compare(g.ID, id) })
	if !ok {
		return nil
	}
	return &g[i]
}

// leases reports whether the backend of any is a lease.
func (g groups) leases() bool {
	return slices.ContainsFunc(g, func(g Group) bool { return g.Backend == Lease })
}
