package target

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// queueMemory limits the memory of queues to Config.QueueMemory: the buffers that they map, and their contexts and
// queue pairs, which take as much. A queue keeps its part for as long as its host stays connected, so a host that takes
// all of it would lock others out for as long. Therefore none has more than it leaves free: a single host has at most
// half, two have a third each, and a later one finds as much as the one before it has left. The last part is reserved
// for addresses of hosts that are connected, or recently were, so that those can reconnect whatever others use.
//
// A queue counts for its address, and for its host instead as soon as that has authenticated. The name of a host
// without a key proves nothing. Queues of unknown hosts count separately: an IPv6 network counts as one address,
// and connections that send nothing do not reduce what its hosts may have. Any goroutine may use it.
type queueMemory struct {
	refused atomic.Uint64

	mu    sync.Mutex
	limit int64
	used  int64
	by    map[account]int64
}

// An account is the unit for which queues are counted together.
type account struct {
	of     partyName
	silent bool // of queues whose hosts are not known yet
}

// A mapping is a queue's part of the queue memory. It is protected by the mutex of queueMemory.
type mapping struct {
	account
	bytes int64
}

const (
	returning     = 8  // the last 1/returning of the queue memory is for known addresses
	returningEach = 32 // and 1/returningEach of all is the limit for each that takes from it
)

func (m *queueMemory) init(limit int64) { m.limit, m.by = limit, map[account]int64{} }

// set takes memory that belongs to no single queue, and reports whether there was enough.
func (m *queueMemory) set(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.limit {
		return false
	}
	m.used += n
	return true
}

// unset returns what set took.
func (m *queueMemory) unset(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

// take takes memory for a queue from an address, or returns the reason why it cannot.
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

// carryOver takes memory for a queue of another process that this one continues. It refuses none: the memory was in
// use before, and a single refusal would make the process give all of them back.
func (m *queueMemory) carryOver(q *mapping, from netip.Addr, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(q, account{of: partyName{addr: originOf(from)}}, n)
}

// admit moves what a queue took to the account of the known hosts of its address.
func (m *queueMemory) admit(q *mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, of := q.bytes, q.of; q.silent {
		m.remove(q)
		m.add(q, account{of: of}, n)
	}
}

// refuses returns the reason why an account that has held bytes may not take n of the free ones, or an empty
// string.
func (m *queueMemory) refuses(held, n, free int64, known bool) string {
	room := free - m.limit/returning
	switch {
	case n > free:
		return "queue memory is used up: raise limits.queue-memory of the target's configuration"
	case known && (held == 0 || held+n <= m.limit/returningEach):
		return ""
	case n > room:
		return "the remaining queue memory is reserved for hosts that reconnect: raise limits.queue-memory of the target's configuration"
	case held > 0 && held+n > room:
		return "the address or host would use more queue memory than it leaves to others: raise limits.queue-memory of the target's configuration, or connect with fewer or shorter queues (nvme connect --nr-io-queues N --queue-size N)"
	}
	return ""
}

func (m *queueMemory) add(q *mapping, a account, n int64) {
	*q = mapping{a, n}
	m.used += n
	m.by[a] += n
}

// give returns what a queue took.
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

// own moves what a queue took to the account of its host, which has authenticated, or returns the reason why it
// cannot.
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

// mapped returns how many bytes are taken.
func (m *queueMemory) mapped() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
