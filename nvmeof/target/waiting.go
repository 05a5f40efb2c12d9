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

// Anybody can begin a connection and then say nothing. Such connections have bounded room,
// in which a newer one takes the place of the oldest of the address that has most: a host
// that goes on within the time that a flood needs to fill the room is never affected, and a
// flood from few addresses affects only itself. Hosts that are connected, or were lately,
// have room of their own.

const (
	maxSilent = 512 // the default of Config.MaxSilent
	knownRoom = 8   // times as much for known addresses
	// acquainted is how long an address is known after its last connection.
	acquainted = time.Hour
	// leastWait is how long a connection has at least before another one of the same address
	// takes its place: that bounds what a flood from one address costs.
	leastWait = time.Second
	// maxAcquainted bounds the addresses without a connection that are known.
	maxAcquainted = 4096
)

var errGaveWay = errors.New("made room for a newer connection")

// AdmissionCounts counts connections that ended before they were of use, since the target's
// start.
type AdmissionCounts struct {
	GaveWay uint64 `json:"gave-way"` // to newer ones, see Config.MaxSilent
	Refused uint64 `json:"refused"`  // requests of addresses whose others had come within the last second
	Silent  uint64 `json:"silent"`   // that sent no Connect command within Config.ConnectTimeout
	// Memory are those for which there was no memory, or none for their address or host: see
	// Config.QueueMemory.
	Memory uint64 `json:"memory"`
}

// AdmissionCounts returns the counters.
func (t *Target) AdmissionCounts() AdmissionCounts {
	w := &t.waiting
	return AdmissionCounts{w.gaveWay.Load(), w.refused.Load(), w.silent.Load(), t.memory.refused.Load()}
}

// waiting has the connections whose host is not known yet. Any goroutine uses it.
type waiting struct {
	gaveWay, refused, silent atomic.Uint64

	mu        sync.Mutex
	strangers room
	known     room
	hosts     map[netip.Addr]*acquaintance // by address, not by origin: who has a host in its network is none
}

// An acquaintance is an address from which an allowed host has connected to a subsystem
// other than discovery, which is open to all.
type acquaintance struct {
	queues int
	last   time.Time // when there was a queue
}

// A room has so many places.
type room struct {
	places, each int
	memory       int64 // bytes that the connections may map; 0: any number
	used         int64
	oldest       list.List // of *waiter, from the oldest on
	origins      map[netip.Addr]*origin
}

// An origin is what an address has of a room.
type origin struct {
	count  int
	memory int64
}

// A waiter is a connection in a room.
type waiter struct {
	room   *room
	queue  *queue
	addr   netip.Addr
	origin netip.Addr // of addr
	memory int64
	since  time.Time
	at     *list.Element
	known  bool // proven, and counted in hosts
}

func (w *waiting) init(places int, memory int64) {
	w.strangers = room{places: places, each: places / 2, memory: memory / 4, origins: map[netip.Addr]*origin{}}
	w.known = room{places: knownRoom * places, each: knownRoom * places / 2, origins: map[netip.Addr]*origin{}}
	w.hosts = map[netip.Addr]*acquaintance{}
}

// originOf is what counts as one address: whoever has an IPv6 address has 2^64 of them.
func originOf(a netip.Addr) netip.Addr {
	if a = plain(a); a.Is6() {
		p, _ := a.Prefix(64) // which cannot fail
		return p.Addr()
	}
	return a
}

// plain is an address as it is compared with others.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// roomOf is where connections of an address wait.
func (w *waiting) roomOf(addr netip.Addr, now time.Time) *room {
	if h := w.hosts[plain(addr)]; h != nil && (h.queues > 0 || now.Sub(h.last) < acquainted) {
		return &w.known
	}
	return &w.strangers
}

// knows reports whether a host is connected from an address, or was lately.
func (w *waiting) knows(addr netip.Addr, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roomOf(addr, now) == &w.known
}

// refuses reports whether a request costs more than its address may. Nothing has been done
// for it yet. An address of which none waits is not refused for what others of its network have.
func (w *waiting) refuses(addr netip.Addr, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	from, r := originOf(addr), w.roomOf(addr, now)
	if o := r.origins[from]; o == nil || o.count < r.each {
		return false
	}
	if addr = plain(addr); addr != from && r.first(func(p *waiter) bool { return p.addr == addr }) == nil {
		return false
	}
	if now.Sub(r.first(func(p *waiter) bool { return p.origin == from }).since) >= leastWait {
		return false
	}
	w.refused.Add(1)
	return true
}

// enter adds a connection, and returns those that have to give way to it.
func (w *waiting) enter(q *queue, memory int64, now time.Time) (out []*queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	addr := q.remote.Addr()
	from, r := originOf(addr), w.roomOf(addr, now)
	for {
		var p *waiter
		switch o := r.origins[from]; {
		case o != nil && o.count >= r.each:
			p = r.first(func(p *waiter) bool { return p.origin == from })
		case r.oldest.Len() >= r.places, r.memory > 0 && r.used+memory > r.memory && r.oldest.Len() > 0:
			most := r.most()
			p = r.first(func(p *waiter) bool { return r.origins[p.origin].count == most })
		default:
			q.waiter = &waiter{room: r, queue: q, addr: plain(addr), origin: from, memory: memory, since: now}
			r.add(q.waiter)
			return out
		}
		r.remove(p)
		out = append(out, p.queue)
	}
}

// relieve returns connections that give way because there is no memory for one from an
// address: of the address that has most, if that is another.
func (w *waiting) relieve(from netip.Addr) (out []*queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = originOf(from)
	for _, r := range []*room{&w.strangers, &w.known} {
		var heaviest netip.Addr
		most := int64(0)
		for a, o := range r.origins {
			if o.memory > most {
				heaviest, most = a, o.memory
			}
		}
		if own := r.origins[from]; most == 0 || heaviest == from || own != nil && 2*own.memory > most {
			continue
		}
		p := r.first(func(p *waiter) bool { return p.origin == heaviest })
		r.remove(p)
		return append(out, p.queue)
	}
	return nil
}

// prove ends the wait of a connection: its host is what it says, as far as it has to show
// that. Discovery does not make a host known.
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

// leave forgets a connection that has ended.
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

// forget keeps the number of addresses without a connection within bounds: those that have
// been gone for longest are strangers again.
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

// count is how many connections wait.
func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.strangers.oldest.Len() + w.known.oldest.Len()
}

func (r *room) add(p *waiter) {
	p.at = r.oldest.PushBack(p)
	o := r.origins[p.origin]
	if o == nil {
		o = &origin{}
		r.origins[p.origin] = o
	}
	o.count++
	o.memory += p.memory
	r.used += p.memory
}

// remove does nothing for a connection that was removed before.
func (r *room) remove(p *waiter) {
	if p.at == nil {
		return
	}
	r.oldest.Remove(p.at)
	p.at = nil
	r.used -= p.memory
	o := r.origins[p.origin]
	o.memory -= p.memory
	if o.count--; o.count == 0 {
		delete(r.origins, p.origin)
	}
}

// first is the oldest connection that is meant, of which there is one.
func (r *room) first(meant func(*waiter) bool) *waiter {
	for e := r.oldest.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*waiter); meant(p) {
			return p
		}
	}
	return nil
}

// most is how many places the address has that has most.
func (r *room) most() (n int) {
	for _, o := range r.origins {
		n = max(n, o.count)
	}
	return n
}

// giveWay ends connections whose places others have.
func (t *Target) giveWay(qs []*queue) {
	for _, q := range qs {
		q.shard.Do(q.giveWay)
	}
}

// giveWay ends a connection that waits, unless its host has been heard meanwhile.
func (q *queue) giveWay() {
	if q.proven || q.failed {
		return
	}
	q.gaveWay = true
	q.target.waiting.gaveWay.Add(1)
	q.target.log.Trouble("connection dropped: it made room for a newer one, and had sent no Connect command or not authenticated",
		zap.Stringer("peer", q.remote))
	q.disconnect(errGaveWay.Error())
}
