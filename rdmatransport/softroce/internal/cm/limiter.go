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
	eachBurst = 1024 // requests of one address
	eachRate  = 1000 // a second

	// All addresses that have no connection, and had none lately. Anybody can send in their
	// names, and where hundreds of addresses do each request is served in full.
	strangersBurst, strangersRate = 4096, 500
	// All others: an RTU has shown that they get what we send. 64 hosts with 128 queues each
	// may return at once and leave half of the burst.
	provenBurst, provenRate = 16384, 4000

	// Where half of a burst of all has gone, which takes a flood from many addresses, each
	// gets only so many a second, so that those who ask for little are served first.
	strangersShare, provenShare = 1, 64

	// An IPv6 network of 64 bits may be somebody who has 2^64 addresses, or have all hosts of
	// a site. It has 3/4 of a burst and rate of all, among its addresses as all is among
	// all, and where half of all has gone as much as so many addresses.
	networkAddresses = 64

	// Messages that end a connection we do not know, which after a restart are all. Who gets
	// no answer ends by itself.
	repliesBurst, repliesRate = 16384, 1000

	// remembered is how long an address counts as proven after its last request.
	remembered = time.Hour
	// maxCallers is how many addresses without connections there may be before those that
	// are of no more use are looked for.
	maxCallers = 4096
	// maxNeighbours is how many of them are remembered of an IPv6 network if there are more.
	maxNeighbours = maxCallers / 16
)

// A door decides which requests are looked at, before anything is done for them. Each
// engine has one.
type door struct {
	callers           map[netip.Addr]*caller  // by address without zone
	networks          map[netip.Addr]*network // of IPv6, by origin
	strangers, proven level
	replies           level
	swept             time.Duration
}

// A caller is an address that has sent requests.
type caller struct {
	own         level
	second      second
	connections int           // that an RTU has confirmed
	proven      time.Duration // until then
}

// A network is what addresses have together.
type network struct {
	strangers, proven             level
	strangersSecond, provenSecond second
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

// A second counts the requests in it that were looked at.
type second struct {
	began time.Duration
	n     int
}

func (s *second) count(now time.Duration) int {
	if now-s.began >= time.Second {
		*s = second{began: now}
	}
	return s.n
}

func newDoor() door {
	return door{callers: map[netip.Addr]*caller{}, networks: map[netip.Addr]*network{}}
}

// admits reports whether a request of an address is looked at.
func (d *door) admits(now time.Duration, from netip.Addr) bool {
	from = from.WithZone("")
	c := d.callers[from]
	known := c != nil && c.isProven(now)
	all, burst, rate, share := &d.strangers, strangersBurst, strangersRate, strangersShare
	if known {
		all, burst, rate, share = &d.proven, provenBurst, provenRate, provenShare
	}
	left := all.left(now, burst, rate)
	if left < 1 {
		return false
	}
	scarce := left < float64(burst)/2
	var net *level
	var second *second
	if from.Is6() {
		net, second = d.network(from).of(known)
		burst, rate := burst/4*3, rate/4*3
		left := net.left(now, burst, rate)
		if left < 1 || scarce && second.count(now) >= networkAddresses*share {
			return false
		}
		scarce = scarce || left < float64(burst)/2
	}
	if c == nil {
		c = d.enter(now, from)
	}
	if scarce && c.second.count(now) >= share || c.own.left(now, eachBurst, eachRate) < 1 {
		return false
	}
	c.second.count(now)
	c.second.n++
	c.own.spent++
	all.spent++
	if net != nil {
		second.n++
		net.spent++
	}
	return true
}

// network is that of an IPv6 address. There are no more than callers, and those that have
// just gone.
func (d *door) network(from netip.Addr) *network {
	origin := OriginOf(from)
	n := d.networks[origin]
	if n == nil {
		n = &network{}
		d.networks[origin] = n
	}
	return n
}

func (n *network) of(proven bool) (*level, *second) {
	if proven {
		return &n.proven, &n.provenSecond
	}
	return &n.strangers, &n.strangersSecond
}

// answers reports whether a message that names no connection gets the answer that it wants.
func (d *door) answers(now time.Duration) bool {
	if d.replies.left(now, repliesBurst, repliesRate) < 1 {
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
	from = from.WithZone("")
	c := d.callers[from]
	if c == nil {
		c = d.enter(now, from)
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
	if at := d.callers[c.peer.WithZone("")]; at != nil {
		at.connections--
		at.proven = now + remembered
	}
}

func (c *caller) isProven(now time.Duration) bool { return c.connections > 0 || now < c.proven }

// enter makes room first: what all strangers may send bounds how many come in the second
// that each stays. Addresses that were proven are remembered however many strangers come; of
// too many, those of networks that have too many go first.
func (d *door) enter(now time.Duration, from netip.Addr) *caller {
	if len(d.callers) >= maxCallers && now-d.swept >= time.Second {
		d.swept = now
		d.sweep(func(_ netip.Addr, c *caller) bool { return !c.isProven(now) })
		if n, neighbours := d.absent(now); n >= maxCallers {
			d.sweep(func(a netip.Addr, c *caller) bool {
				return c.connections == 0 && neighbours[OriginOf(a)] > maxNeighbours
			})
			if n, _ := d.absent(now); n >= maxCallers {
				d.sweep(func(_ netip.Addr, c *caller) bool { return c.connections == 0 })
			}
		}
		for a, n := range d.networks {
			if n.strangers.left(now, 0, strangersRate/4*3) == 0 && n.proven.left(now, 0, provenRate/4*3) == 0 {
				delete(d.networks, a)
			}
		}
	}
	c := &caller{second: second{began: now}}
	d.callers[from] = c
	return c
}

// absent is how many addresses are proven and have no connection, of all and by origin.
func (d *door) absent(now time.Duration) (n int, by map[netip.Addr]int) {
	by = map[netip.Addr]int{}
	for a, c := range d.callers {
		if c.connections == 0 && c.isProven(now) {
			n++
			by[OriginOf(a)]++
		}
	}
	return n, by
}

// sweep forgets those who are meant, if they have been quiet for a second and owe nothing.
func (d *door) sweep(meant func(netip.Addr, *caller) bool) {
	for a, c := range d.callers {
		if meant(a, c) && d.swept-c.second.began >= time.Second && c.own.left(d.swept, eachBurst, eachRate) == eachBurst {
			delete(d.callers, a)
		}
	}
}
