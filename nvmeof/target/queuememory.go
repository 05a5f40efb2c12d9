package target

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// queueMemory is the memory that queues map, Config.QueueMemory at most. A queue keeps its
// part for as long as its host stays connected, so that who takes all of it locks others
// out for as long. Therefore nobody has more than he leaves free: a host alone has at
// most half, two have a third each, and one that comes later finds as much as the one
// before it has left. The last of it is for addresses of hosts that are connected, or were
// lately, so that those come back, whoever takes the rest.
//
// A queue counts for the address that it comes from, and for its host instead as soon as that
// has authenticated. The name of a host without a key proves nothing. What strangers have whose
// host is not known yet counts by itself: a network of IPv6 counts as one address, and
// who says nothing takes no part of what its hosts may have. Any goroutine uses it.
type queueMemory struct {
	refused atomic.Uint64

	mu    sync.Mutex
	limit int64
	used  int64
	by    map[account]int64
}

// An account is for what counts together.
type account struct {
	of     partyName
	silent bool // of strangers, until their host is known
}

// A mapping is what a queue has of the queue memory, under its mutex.
type mapping struct {
	account
	bytes int64
}

const (
	returning     = 8  // the part of queue memory that is for known addresses
	returningEach = 32 // and the part of all that one of them may have if it takes from that
)

func (m *queueMemory) init(limit int64) { m.limit, m.by = limit, map[account]int64{} }

// set takes memory that no queue has by itself, and reports whether there was as much.
func (m *queueMemory) set(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.limit {
		return false
	}
	m.used += n
	return true
}

// unset gives back what set took.
func (m *queueMemory) unset(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

// take takes memory for a queue from an address, or tells why not.
func (m *queueMemory) take(q *mapping, from netip.Addr, n int64, known bool) (why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := account{of: partyName{addr: originOf(from)}}
	why = m.refuses(m.by[a], n, m.limit-m.used, known)
	if !known && why == "" {
		a.silent = true
		why = m.refuses(m.by[a], n, m.limit-m.used, false)
	}
	if why != "" {
		m.refused.Add(1)
		return why
	}
	m.add(q, a, n)
	return ""
}

// admit has what a queue took count for those of its address whose host is known.
func (m *queueMemory) admit(q *mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, of := q.bytes, q.of; q.silent {
		m.remove(q)
		m.add(q, account{of: of}, n)
	}
}

// refuses tells why somebody who has so much may not have n more of what is free.
func (m *queueMemory) refuses(held, n, free int64, known bool) string {
	room := free - m.limit/returning
	switch {
	case n > free:
		return "queue memory is used up: raise QueueMemory"
	case known && (held == 0 || held+n <= m.limit/returningEach):
		return ""
	case n > room:
		return "the last of the queue memory is for hosts that connect again: raise QueueMemory"
	case held > 0 && held+n > room:
		return "the address or host would have more queue memory than it leaves to others: raise QueueMemory, or have it connect with fewer or shorter queues (nvme connect --nr-io-queues N --queue-size N)"
	}
	return ""
}

func (m *queueMemory) add(q *mapping, a account, n int64) {
	*q = mapping{a, n}
	m.used += n
	m.by[a] += n
}

// give gives back what a queue took.
func (m *queueMemory) give(q *mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(q)
}

func (m *queueMemory) remove(q *mapping) {
	m.used -= q.bytes
	if m.by[q.account] -= q.bytes; m.by[q.account] == 0 {
		delete(m.by, q.account)
	}
	q.bytes = 0
}

// own has what a queue took count for its host, which has proved who it is, or tells why
// not.
func (m *queueMemory) own(q *mapping, host nvmeof.NQN) (why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := account{of: partyName{host: host}}
	if q.account == a {
		return ""
	}
	n := q.bytes
	if why = m.refuses(m.by[a], n, m.limit-m.used+n, true); why != "" {
		m.refused.Add(1)
		return why
	}
	m.remove(q)
	m.add(q, a, n)
	return ""
}

// mapped is how much is taken.
func (m *queueMemory) mapped() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
