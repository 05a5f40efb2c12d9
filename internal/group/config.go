package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config configures a gateway. Zero values select the defaults.
type Config struct {
	Name      string   // required; the same after each start
	Addresses []string // to which hosts connect

	Interval     time.Duration // between heartbeats; 0: 500 ms
	Term         time.Duration // silence after which a gateway is fenced; 0: four intervals
	LeaseTerm    time.Duration // for groups whose backend is a lease; 0: 10 s
	DrainTimeout time.Duration // for a group that is moved or opened, since the last progress; 0: 10 s
	LeaveTimeout time.Duration // after which a leaving gateway ends in any case; 0: 30 s
	FenceRenew   time.Duration // between fences of an incarnation that may still exist; 0: 10 min
	Settle       time.Duration // between moves for balance; 0: 5 s
	MaxMoves     int           // concurrent moves for balance; 0: 4; four times as many without I/O
	Slots        int           // number of ranges of controller identifiers; 0: 32
}

// A Group is the configuration of an ANA group.
type Group struct {
	ID        ID
	Backend   Backend
	Preferred string // the gateway that owns it whenever it can; with None: the only one that does
}

// controllerIDs is the number of controller identifiers: 1 to FFEFh (NVMe base 2.0, figure 33).
const controllerIDs = 0xffef

// ControllerIDs returns the range of controller identifiers of one of slots slots: 2,047 identifiers each for 32 slots.
func ControllerIDs(slot, slots int) (first, last uint16) {
	n := controllerIDs / cmp.Or(slots, defaultSlots)
	return uint16((slot-1)*n + 1), uint16(slot * n)
}

const (
	defaultSlots = 32
	maxName      = 200
)

// withDefaults returns c with defaults filled in, or an error if c is invalid.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" || len(c.Name) > maxName || strings.ContainsAny(c.Name, "/ \t\n") {
		return c, fmt.Errorf("gateway name %q: want 1 to %d bytes without slash and space", c.Name, maxName)
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
		return c, fmt.Errorf("term of %v: want at least three heartbeat intervals of %v, because a heartbeat may be late", c.Term, c.Interval)
	}
	return c, nil
}

// groups are the groups, sorted.
type groups []Group

func (g groups) find(id ID) *Group {
	i, ok := slices.BinarySearchFunc(g, id, func(g Group, id ID) int { return cmp.Compare(g.ID, id) })
	if !ok {
		return nil
	}
	return &g[i]
}

// leases reports whether any group has a lease as its backend.
func (g groups) leases() bool {
	return slices.ContainsFunc(g, func(g Group) bool { return g.Backend == Lease })
}
