package target

import (
	"container/list"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Any peer can open a connection and then send nothing. The number of such connections is bounded. At the limit a
// new one displaces the oldest of the address that has the most. So a host that continues before a flood has
// reached the limit is never affected, and a flood from few addresses only affects itself. Hosts that are
// connected, or recently were, have a separate limit. It allows for all the queues for which there is memory: hosts
// that come back together open all I/O queues before the first Connect command, and if one displaced the queues of
// another, of those that are nearly done first, none would ever be done.

const (
	maxSilent = 512 // the default of Config.MaxSilent
	knownRoom = 8   // factor by which the limit is higher for known addresses, at least
	// leastQueue is how many bytes queues take that hosts use, at least: those of a few entries. Tinier ones reach the
	// limit before the memory.
	leastQueue = 64 << 10
	maxKnown   = 1 << 20 // places for known addresses, whatever the memory
	// acquainted is how long an address stays known after its last connection.
	acquainted = time.Hour
	// leastWait is the minimum time before a connection is displaced by another one of the same address; it bounds
	// the cost of a flood from one address.
	leastWait = time.Second
	// maxAcquainted bounds the number of known addresses without a connection.
	maxAcquainted = 4096
)

var errGaveWay = errors.New("made room for a newer connection")

// AdmissionCounts counts the connections that ended before their hosts were admitted, since the target's start.
type AdmissionCounts struct {
	GaveWay uint64 `json:"gave-way"` // displaced by newer ones, see Config.MaxSilent
	Refused uint64 `json:"refused"`  // requests refused because their address had reached its limit within the last second
	Silent  uint64 `json:"silent"`   // no Connect command arrived within Config.ConnectTimeout
	// Memory counts those for which there was no memory, or none for their address or host: see
	// Config.QueueMemory.
	Memory uint64 `json:"memory"`
}

// AdmissionCounts returns the counters.
func (t *Target) AdmissionCounts() AdmissionCounts {
	w := &t.waiting
	return AdmissionCounts{w.gaveWay.Load(), w.refused.Load(), w.silent.Load(), t.memory.refused.Load()}
}

// waiting has the connections whose hosts are not known yet. It may be used by any goroutine.
type waiting struct {
	gaveWay, refused, silent atomic.Uint64

	mu        sync.Mutex
	strangers room
	known     room
	arrived   uint64
	hosts     map[netip.Addr]*acquaintance // by address, not by origin: a host makes only its own address known, not its network
}

// An acquaintance is an address from which an allowed host has connected to a subsystem other than the discovery
// subsystem, which is open to all.
type acquaintance struct {
	queues int
	last   time.Time // when it last had a queue
}

// A room is a limited set of waiting connections.
type room struct {
	places, each int
	memory       int64 // limit of bytes that the connections may take; 0: no limit
	used         int64
	count        int
	origins      map[netip.Addr]*origin
}

// An origin has the connections of one address in a room. For IPv6 it is the address of a network.
type origin struct {
	oldest list.List // of *waiter, the oldest first
	memory int64
	hosts  map[netip.Addr]int // connections of each address; nil for IPv4
}

func (o *origin) first() *waiter { return o.oldest.Front().Value.(*waiter) }

// A waiter is a connection in a room.
type waiter struct {
	room   *room
	queue  *queue
	addr   netip.Addr
	origin netip.Addr // originOf(addr)
	memory int64
	since  time.Time
	at     *list.Element
	serial uint64 // in the order of arrival
	known  bool   // admitted, and counted in hosts
}

func (w *waiting) init(places int, memory int64) {
	w.strangers = room{places: places, each: places / 2, memory: memory / 4, origins: map[netip.Addr]*origin{}}
	places = max(knownRoom*places, int(min(memory/leastQueue, maxKnown)))
	w.known = room{places: places, each: places / 2, origins: map[netip.Addr]*origin{}}
	w.hosts = map[netip.Addr]*acquaintance{}
}

// originOf returns the address as which an address counts: a host with an IPv6 address has 2^64 of them.
func originOf(a netip.Addr) netip.Addr {
	if a = plain(a); a.Is6() {
		p, _ := a.Prefix(64) // cannot fail
		return p.Addr()
	}
	return a
}

// plain returns an address in the form in which it is compared.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// roomOf returns the room in which connections of an address wait.
func (w *waiting) roomOf(addr netip.Addr, now time.Time) *room {
	if h := w.hosts[plain(addr)]; h != nil && (h.queues > 0 || now.Sub(h.last) < acquainted) {
		return &w.known
	}
	return &w.strangers
}

// knows reports whether a host is connected from an address, or recently was.
func (w *waiting) knows(addr netip.Addr, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roomOf(addr, now) == &w.known
}

// refuses reports whether a request exceeds the limit of its address. It is called before any work for the
// request. An address without a waiting connection is not refused because of others of its network.
func (w *waiting) refuses(addr netip.Addr, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	from, r := originOf(addr), w.roomOf(addr, now)
	o := r.origins[from]
	if o == nil || o.oldest.Len() < r.each {
		return false
	}
	if o.hosts != nil && o.hosts[plain(addr)] == 0 || now.Sub(o.first().since) >= leastWait {
		return false
	}
	w.refused.Add(1)
	return true
}

// enter adds a connection, and returns those that it displaces.
func (w *waiting) enter(q *queue, memory int64, now time.Time) (out []*queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	addr := q.remote.Addr()
	from, r := originOf(addr), w.roomOf(addr, now)
	for {
		var p *waiter
		switch o := r.origins[from]; {
		case o != nil && o.oldest.Len() >= r.each:
			p = o.first()
		case r.count >= r.places, r.memory > 0 && r.used+memory > r.memory && r.count > 0:
			p = r.oldestOfMost()
		default:
			w.arrived++
			q.waiter = &waiter{room: r, queue: q, addr: plain(addr), origin: from, memory: memory, since: now, serial: w.arrived}
			r.add(q.waiter)
			return out
		}
		r.remove(p)
		out = append(out, p.queue)
	}
}

// relieve returns a connection to end because there is no memory for one from an address: one of the address that
// has the most, if that is another address.
func (w *waiting) relieve(from netip.Addr) (out []*queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = originOf(from)
	for _, r := range []*room{&w.strangers, &w.known} {
		var heaviest *origin
		most := int64(0)
		for _, o := range r.origins {
			if o.memory > most {
				heaviest, most = o, o.memory
			}
		}
		if own := r.origins[from]; most == 0 || heaviest == own || own != nil && 2*own.memory > most {
			continue
		}
		p := heaviest.first()
		r.remove(p)
		return append(out, p.queue)
	}
	return nil
}

// prove ends the wait of a connection whose host is admitted. A host that is admitted to discovery does not become
// known.
func (w *waiting) prove(q *queue, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := q.waiter
	if p == nil {
		return
	}
	p.room.remove(p)
	if !known || p.known {
		return
	}
	p.known = true // until leave
	h := w.hosts[p.addr]
	if h == nil {
		h = &acquaintance{}
		w.hosts[p.addr] = h
	}
	h.queues++
}

// leave removes a connection that has ended.
func (w *waiting) leave(q *queue, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := q.waiter
	if p == nil {
		return
	}
	p.room.remove(p)
	if p.known {
		h := w.hosts[p.addr]
		h.queues--
		h.last = now
		w.forget(now)
	}
	q.waiter = nil
}

// forget bounds the number of known addresses without a connection: it removes the one that has been without one
// for longest.
func (w *waiting) forget(now time.Time) {
	if len(w.hosts) <= maxAcquainted {
		return
	}
	var oldest netip.Addr
	last := now
	for a, h := range w.hosts {
		if h.queues == 0 && !h.last.After(last) {
			oldest, last = a, h.last
		}
	}
	delete(w.hosts, oldest)
}

// count returns how many connections wait.
func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.strangers.count + w.known.count
}

func (r *room) add(p *waiter) {
	o := r.origins[p.origin]
	if o == nil {
		o = &origin{}
		if p.origin.Is6() {
			o.hosts = map[netip.Addr]int{}
		}
		r.origins[p.origin] = o
	}
	p.at = o.oldest.PushBack(p)
	if o.hosts != nil {
		o.hosts[p.addr]++
	}
	o.memory += p.memory
	r.used += p.memory
	r.count++
}

// remove does nothing for a connection that was removed before.
func (r *room) remove(p *waiter) {
	if p.at == nil {
		return
	}
	o := r.origins[p.origin]
	o.oldest.Remove(p.at)
	p.at = nil
	r.used -= p.memory
	r.count--
	o.memory -= p.memory
	if o.hosts != nil {
		if o.hosts[p.addr]--; o.hosts[p.addr] == 0 {
			delete(o.hosts, p.addr)
		}
	}
	if o.oldest.Len() == 0 {
		delete(r.origins, p.origin)
	}
}

// oldestOfMost returns the oldest connection of the address that has the most, or of those that have.
func (r *room) oldestOfMost() (p *waiter) {
	most := 0
	for _, o := range r.origins {
		if n := o.oldest.Len(); n > most || n == most && o.first().serial < p.serial {
			p, most = o.first(), n
		}
	}
	return p
}

// giveWay ends connections that others have displaced.
func (t *Target) giveWay(qs []*queue) {
	for _, q := range qs {
		q.shard.Do(q.giveWay)
	}
}

// giveWay ends a waiting connection, unless its host has been admitted meanwhile.
func (q *queue) giveWay() {
	if q.proven || q.failed {
		return
	}
	q.gaveWay = true
	q.target.waiting.gaveWay.Add(1)
	q.target.log.Trouble("connection dropped to make room for a newer one: it had sent no Connect command, or not authenticated",
		zap.Stringer("peer", q.remote))
	q.disconnect(errGaveWay.Error())
}
