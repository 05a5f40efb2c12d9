package target

import (
	"net/netip"
	"sync"
	"time"
)

// arrivalsPerSecond limits the discovery controllers that one address may connect in a second: discovery is open
// to hosts of any name, and each connection costs a queue and a log line.
const arrivalsPerSecond = 100

// arrivals counts the connections to the discovery service in the current second, by address.
type arrivals struct {
	mu     sync.Mutex
	second int64
	from   map[netip.Addr]int
}

// allow counts a connection and reports whether it is within the limit.
func (a *arrivals) allow(from netip.Addr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := now.Unix(); s != a.second || a.from == nil {
		a.second, a.from = s, make(map[netip.Addr]int)
	}
	a.from[from]++
	return a.from[from] <= arrivalsPerSecond
}
