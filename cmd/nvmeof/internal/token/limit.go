package token

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/connlimit"
)

// Limits on failures. An address is allowed a burst of failures, and then one per pause.
const (
	burst        = 10
	pause        = 6 * time.Second
	maxAddresses = 4096
)

// A Limit counts the failures of each address. Its zero value has none. It may be used from any goroutine.
type Limit struct {
	mu    sync.Mutex
	again map[netip.Addr]time.Time // when all failures of an address are forgotten
}

// Wait returns how long an address must wait before its next attempt; 0: it may try now.
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

// forget removes expired addresses, or all if none has expired. A client with so many addresses does not gain from
// that: a token has 256 bits.
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
