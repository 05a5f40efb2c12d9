package cm

import (
	"net/netip"
	"time"
)

// Rate limits of requests, per address and in all. A request costs us a thousand times what it costs the sender: a
// goroutine is woken, memory is mapped, a queue pair is created. A request over the limit costs a map lookup. A host
// that opens hundreds of connections at once stays below the limits.
const (
	eachBurst = 1024 // requests per address
	eachRate  = 1000 // per second

	// For all unproven addresses: those without a connection now or recently. Such requests can have forged source
	// addresses. While hundreds of addresses send them, each request is served.
	unprovenBurst, unprovenRate = 4096, 500
	// For all proven addresses: an RTU has shown that they receive what we send. 64 hosts with 128 queues each may
	// reconnect at once and use half of the burst.
	provenBurst, provenRate = 16384, 4000

	// Requests per address and second while less than half of the overall burst is left, which takes a flood from
	// many addresses. Addresses that ask for little are then served first.
	unprovenShare, provenShare = 1, 64

	// An IPv6 /64 network may be a single host with 2^64 addresses, or a site with all its hosts. It has 3/4 of the
	// overall burst and rate, which its addresses share in the same way. While less than half of the overall burst is
	// left, it gets as much as this number of addresses.
	networkAddresses = 64

	// Answers to messages that end an unknown connection, which after a restart are all of them. A peer that gets no
	// answer ends the connection by itself.
	repliesBurst, repliesRate = 16384, 1000

	// remembered is how long an address counts as proven after its last connection ended.
	remembered = time.Hour
	// maxSources is the number of addresses from which on the map is swept.
	maxSources = 4096
	// maxNeighbours is the number of unconnected addresses kept per IPv6 network when there are too many in all.
	maxNeighbours = maxSources / 16
)

// A limiter is the rate limiter that decides which requests are processed. Each engine has one.
type limiter struct {
	sources          map[netip.Addr]*source  // by address without zone
	networks         map[netip.Addr]*network // IPv6 only, by OriginOf
	unproven, proven bucket
	replies          bucket
	swept            time.Duration
}

// A source is an address that has sent requests.
type source struct {
	own         bucket
	second      second
	connections int           // confirmed by an RTU
	proven      time.Duration // end of the time for which it counts as proven without a connection
}

// A network is what the addresses of an IPv6 /64 network share.
type network struct {
	unproven, proven             bucket
	unprovenSecond, provenSecond second
}

// A bucket is a token bucket; spent is the part of the burst that is used.
type bucket struct {
	spent float64
	at    time.Duration
}

// left updates the bucket and returns what is left of the burst.
func (b *bucket) left(now time.Duration, burst, rate int) float64 {
	b.spent = max(0, b.spent-(now-b.at).Seconds()*float64(rate))
	b.at = now
	return float64(burst) - b.spent
}

// A second counts the admitted requests within one second.
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

func newLimiter() limiter {
	return limiter{sources: map[netip.Addr]*source{}, networks: map[netip.Addr]*network{}}
}

// admits reports whether a request from the address is processed.
func (l *limiter) admits(now time.Duration, from netip.Addr) bool {
	from = from.WithZone("")
	s := l.sources[from]
	known := s != nil && s.isProven(now)
	all, burst, rate, share := &l.unproven, unprovenBurst, unprovenRate, unprovenShare
	if known {
		all, burst, rate, share = &l.proven, provenBurst, provenRate, provenShare
	}
	left := all.left(now, burst, rate)
	if left < 1 {
		return false
	}
	scarce := left < float64(burst)/2
	var net *bucket
	var second *second
	if from.Is6() {
		net, second = l.network(from).of(known)
		burst, rate := burst/4*3, rate/4*3
		left := net.left(now, burst, rate)
		if left < 1 || scarce && second.count(now) >= networkAddresses*share {
			return false
		}
		scarce = scarce || left < float64(burst)/2
	}
	if s == nil {
		s = l.enter(now, from)
	}
	if scarce && s.second.count(now) >= share || s.own.left(now, eachBurst, eachRate) < 1 {
		return false
	}
	s.second.count(now)
	s.second.n++
	s.own.spent++
	all.spent++
	if net != nil {
		second.n++
		net.spent++
	}
	return true
}

// network returns the network of an IPv6 address. The map is swept together with sources.
func (l *limiter) network(from netip.Addr) *network {
	origin := OriginOf(from)
	n := l.networks[origin]
	if n == nil {
		n = &network{}
		l.networks[origin] = n
	}
	return n
}

func (n *network) of(proven bool) (*bucket, *second) {
	if proven {
		return &n.proven, &n.provenSecond
	}
	return &n.unproven, &n.unprovenSecond
}

// answers reports whether a message for an unknown connection is answered.
func (l *limiter) answers(now time.Duration) bool {
	if l.replies.left(now, repliesBurst, repliesRate) < 1 {
		return false
	}
	l.replies.spent++
	return true
}

// proves records that the peer's address receives what we send: an RTU contains our communication ID. Data does not
// prove that.
func (l *limiter) proves(now time.Duration, c *conn) {
	if !c.proven {
		c.proven = true
		l.confirmed(now, c.peer)
	}
}

// confirmed records another connection of an address.
func (l *limiter) confirmed(now time.Duration, from netip.Addr) {
	from = from.WithZone("")
	s := l.sources[from]
	if s == nil {
		s = l.enter(now, from)
	}
	s.connections++
	s.proven = now + remembered
}

// ended records that a connection has ended.
func (l *limiter) ended(now time.Duration, c *conn) {
	if !c.proven {
		return
	}
	c.proven = false
	if at := l.sources[c.peer.WithZone("")]; at != nil {
		at.connections--
		at.proven = now + remembered
	}
}

func (s *source) isProven(now time.Duration) bool { return s.connections > 0 || now < s.proven }

// enter adds an address, after sweeping the map if it is full. An unproven address stays for at least a second, so
// the overall rate bounds their number. Proven addresses are kept however many unproven ones arrive. If there are too
// many proven ones without a connection, those of networks with many of them are removed first.
func (l *limiter) enter(now time.Duration, from netip.Addr) *source {
	if len(l.sources) >= maxSources && now-l.swept >= time.Second {
		l.swept = now
		l.sweep(func(_ netip.Addr, s *source) bool { return !s.isProven(now) })
		if n, neighbours := l.absent(now); n >= maxSources {
			l.sweep(func(a netip.Addr, s *source) bool {
				return s.connections == 0 && neighbours[OriginOf(a)] > maxNeighbours
			})
			if n, _ := l.absent(now); n >= maxSources {
				l.sweep(func(_ netip.Addr, s *source) bool { return s.connections == 0 })
			}
		}
		for a, n := range l.networks {
			if n.unproven.left(now, 0, unprovenRate/4*3) == 0 && n.proven.left(now, 0, provenRate/4*3) == 0 {
				delete(l.networks, a)
			}
		}
	}
	s := &source{second: second{began: now}}
	l.sources[from] = s
	return s
}

// absent returns the number of proven addresses without a connection, in all and by origin.
func (l *limiter) absent(now time.Duration) (n int, by map[netip.Addr]int) {
	by = map[netip.Addr]int{}
	for a, s := range l.sources {
		if s.connections == 0 && s.isProven(now) {
			n++
			by[OriginOf(a)]++
		}
	}
	return n, by
}

// sweep removes the addresses for which meant is true, if they were idle for a second and their own bucket is full.
func (l *limiter) sweep(meant func(netip.Addr, *source) bool) {
	for a, s := range l.sources {
		if meant(a, s) && l.swept-s.second.began >= time.Second && s.own.left(l.swept, eachBurst, eachRate) == eachBurst {
			delete(l.sources, a)
		}
	}
}
