package control

import (
	"sync"
	"time"
)

// Bounds on what the audit has of operations that roles do not include. A token has some at once, and then one in a while:
// without, the least of them could fill the disk of the target, and have lines of others lost.
const (
	refusalBurst  = 64
	refusalPause  = 6 * time.Second
	maxRefusalsOf = 4096 // tokens
)

// refusals are those who were refused operations, by the names of their tokens. The zero value has none.
type refusals struct {
	mu sync.Mutex
	of map[string]*refusal
}

type refusal struct {
	until  time.Time // by when all that was listed counts no more
	before int       // were not listed since
}

// add counts one, and reports whether it is to be listed; if so, how many were not since the last one that was.
func (r *refusals) add(name string, now time.Time) (before int, listed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.of[name]
	if x == nil {
		if r.of == nil || len(r.of) >= maxRefusalsOf { // those of tokens that were revoked long ago
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
