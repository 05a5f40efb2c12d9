package cm

import (
	"net/netip"
	"time"
)

// What an address may ask for, and all together. A request costs us a thousand times what
// it costs to send: a goroutine wakes, memory is mapped, a queue pair is made. What exceeds
// these rates costs a look into a map. A host that opens hundreds of connections at once
// stays below.
const (
	eachBurst = 1024 // requests of one address, of IPv6 its first 64 bits
	eachRate  = 1000 // a second

	// All addresses that have no connection, and had none lately. Anybody can send in their
	// names, and where hundreds of addresses do each request is served in full.
	strangersBurst, strangersRate = 4096, 500
	// All others: an RTU has shown that they get what we send.
	provenBurst, provenRate = 8192, 4000

	// Where half of a burst of all has gone, which takes a flood from many addresses, each
	// gets only so many a second, so that those who ask for little are served first.
	strangersShare, provenShare = 1, 64

	// repliesRate is for messages that end a connection we do not know, a second and at
	// once. Who gets no answer ends by itself.
	repliesRate = 1000

	// remembered is how long an address counts as proven after its last request.
	remembered = time.Hour
	// maxCallers is how many addresses without connections there may be before those that
	// are of no more use are looked for.
	maxCallers = 4096
)

// A door decides which requests are looked at, before anything is done for them. Each
// engine has one.
type door struct {
	callers           map[netip.Addr]*caller // by origin
	strangers, proven level
	replies           level
	swept             time.Duration
}

// A caller is an address that has sent requests.
type caller struct {
	own         level
	second      time.Duration // began then, in which there were so many
	admitted    int
	connections int           // that an RTU has confirmed
	proven      time.Duration // until then
}

// A level is what is left of a burst.
type level struct {
	spent float64
	at    time.Duration
}

// left brings the level up to date, and returns what there is of a burst.
func (l *level) left(now time.Duration, burst, rate int) float64 {
	l.spent = max(0, l.spent-(now-l.at).Seconds()*float64(rate))
	l.at = now
	return float64(burst) - l.spent
}

func newDoor() door { return door{callers: map[netip.Addr]*caller{}} }

// admits reports whether a request of an address is looked at.
func (d *door) admits(now time.Duration, from netip.Addr) bool {
	origin := OriginOf(from)
	c := d.callers[origin]
	all, burst, rate, share := &d.strangers, strangersBurst, strangersRate, strangersShare
	if c != nil && c.isProven(now) {
		all, burst, rate, share = &d.proven, provenBurst, provenRate, provenShare
	}
	left := all.left(now, burst, rate)
	if left < 1 {
		return false
	}
	if c == nil {
		c = d.enter(now, origin)
	}
	if now-c.second >= time.Second {
		c.second, c.admitted = now, 0
	}
	if left < float64(burst)/2 && c.admitted >= share || c.own.left(now, eachBurst, eachRate) < 1 {
		return false
	}
	c.admitted++
	c.own.spent++
	all.spent++
	return true
}

// answers reports whether a message that names no connection gets the answer that it wants.
func (d *door) answers(now time.Duration) bool {
	if d.replies.left(now, repliesRate, repliesRate) < 1 {
		return false
	}
	d.replies.spent++
	return true
}

// proves notes that the address of a connection gets what we send it: an RTU has our
// communication ID, which data do not show.
func (d *door) proves(now time.Duration, c *conn) {
	if !c.proven {
		c.proven = true
		d.confirmed(now, c.peer)
	}
}

// confirmed notes a further connection of an address.
func (d *door) confirmed(now time.Duration, from netip.Addr) {
	origin := OriginOf(from)
	c := d.callers[origin]
	if c == nil {
		c = d.enter(now, origin)
	}
	c.connections++
	c.proven = now + remembered
}

// ended notes that a connection is none any more.
func (d *door) ended(now time.Duration, c *conn) {
	if !c.proven {
		return
	}
	c.proven = false
	if at := d.callers[OriginOf(c.peer)]; at != nil {
		at.connections--
		at.proven = now + remembered
	}
}

func (c *caller) isProven(now time.Duration) bool { return c.connections > 0 || now < c.proven }

// enter makes room first: what all strangers may send bounds how many come in the second
// that each stays.
func (d *door) enter(now time.Duration, origin netip.Addr) *caller {
	if len(d.callers) >= maxCallers && now-d.swept >= time.Second {
		d.swept = now
		d.sweep(func(c *caller) bool { return !c.isProven(now) })
		if len(d.callers) >= maxCallers {
			d.sweep(func(c *caller) bool { return c.connections == 0 })
		}
	}
	c := &caller{second: now}
	d.callers[origin] = c
	return c
}

// sweep forgets those who are meant, if they have been quiet for a second and owe nothing.
func (d *door) sweep(meant func(*caller) bool) {
	for a, c := range d.callers {
		if meant(c) && d.swept-c.second >= time.Second && c.own.left(d.swept, eachBurst, eachRate) == eachBurst {
			delete(d.callers, a)
		}
	}
}
