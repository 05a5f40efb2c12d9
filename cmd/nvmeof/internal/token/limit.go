package token

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/connlimit"
)

// Bounds on failures. An address has some at once, and then one in a while.
const (
	burst        = 10
	pause        = 6 * time.Second
	maxAddresses = 4096
)

// A Limit is which addresses have failed, and how often. Its zero value is none. Any goroutine may use it.
type Limit struct {
	mu    sync.Mutex
	again map[netip.Addr]time.Time // by when all failures of an address count no more
}

// Wait is for how long an address has to wait until it may try again; 0: it may.
func (l *Limit) Wait(a netip.Addr, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, known := l.again[connlimit.Network(a)]
	if !known {
		return 0
	}
	return max(until.Sub(now)-(burst-1)*pause, 0)
}

// Failed counts a failure.
func (l *Limit) Failed(a netip.Addr, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again == nil {
		l.again = map[netip.Addr]time.Time{}
	}
	a = connlimit.Network(a)
	if _, known := l.again[a]; !known && len(l.again) >= maxAddresses {
		l.forget(now)
	}
	until := l.again[a]
	if until.Before(now) {
		until = now
	}
	l.again[a] = until.Add(pause)
}

// forget makes room: for those whose failures count no more, or else for all. Whoever has so many
// addresses guesses no faster for it: a token has 256 bits.
func (l *Limit) forget(now time.Time) {
	for a, until := range l.again {
		if !until.After(now) {
			delete(l.again, a)
		}
	}
	if len(l.again) >= maxAddresses {
		clear(l.again)
	}
}
