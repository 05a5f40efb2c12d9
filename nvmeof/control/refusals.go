package control

import (
	"sync"
	"time"
)

// Limits of what the audit has of operations that roles do not permit: for each token a burst, and then one per
// interval. Without them, a client with the lowest role could fill the target's disk, and displace the lines of
// others.
const (
	refusalBurst  = 64
	refusalPause  = 6 * time.Second
	maxRefusalsOf = 4096 // number of tokens
)

// refusals has the state of these limits by the name of the token. The zero value is empty.
type refusals struct {
	mu sync.Mutex
	of map[string]*refusal
}

type refusal struct {
	until  time.Time // time when the whole burst is available again
	before int       // refusals since then that were not listed
}

// add counts a refusal, and reports whether it is to be listed; if so, also how many before it were not.
func (r *refusals) add(name string, now time.Time) (before int, listed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.of[name]
	if x == nil {
		if r.of == nil || len(r.of) >= maxRefusalsOf { // drop those of tokens that no longer exist
			r.of = map[string]*refusal{}
		}
		x = &refusal{}
		r.of[name] = x
	}
	if x.until.Before(now) {
		x.until = now
	}
	if x.until.Sub(now) > (refusalBurst-1)*refusalPause {
		x.before++
		return 0, false
	}
	x.until = x.until.Add(refusalPause)
	before, x.before = x.before, 0
	return before, true
}
