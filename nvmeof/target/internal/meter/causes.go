package meter

import (
	"maps"
	"sync"
)

// A Kind is the kind of an occurrence other than an I/O command.
type Kind uint8

const (
	Connects     Kind = iota // Connect commands; the cause is "ok", or why they failed
	Rejects                  // connection requests that were rejected; the cause is why
	Disconnects              // associations and queues that ended; the cause is why
	KeepAlives               // associations that ended because their hosts were silent
	Admin                    // admin and fabrics commands; the cause is the command, the detail the status
	AsyncEvents              // asynchronous events that were reported; the cause is their type
	Aborts                   // I/O commands that ended early; the cause is why
	Discoveries              // reads of the discovery log; the cause is their result
	Reservations             // commands that change reservations; the cause is their action, the detail the result
	ANAChanges               // changed states of ANA groups; the cause is the new state, the detail the group
	Kinds
)

// A Cause identifies a counter: an occurrence, and its reason.
type Cause struct {
	Kind      Kind
	Subsystem string // for KeepAlives
	Cause     string
	Detail    string
}

// Causes counts infrequent occurrences. It may be used by any goroutine.
type Causes struct {
	mu sync.Mutex
	n  map[Cause]uint64
}

// maxCauses limits the number of different causes, so that peers cannot use up memory.
const maxCauses = 4096

// Count counts one occurrence.
func (c *Causes) Count(k Kind, subsystem, cause, detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[Cause]uint64)
	}
	at := Cause{k, subsystem, cause, detail}
	if _, known := c.n[at]; !known && len(c.n) >= maxCauses {
		at = Cause{Kind: k, Cause: "other"}
	}
	c.n[at]++
}

// All returns the counts.
func (c *Causes) All() map[Cause]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}
