package meter

import (
	"maps"
	"sync"
)

// A Kind is what happens to hosts beside their I/O commands.
type Kind uint8

const (
	Connects     Kind = iota // Connect commands; the cause is "ok", or why they failed
	Rejects                  // connection requests that were rejected; why
	Disconnects              // associations and queues that ended; why
	KeepAlives               // associations that ended since their host was silent
	Admin                    // admin and fabrics commands; the command, and as detail the status
	AsyncEvents              // asynchronous events that were reported; their type
	Aborts                   // I/O commands that ended early; why
	Discoveries              // reads of the discovery log; their result
	Reservations             // commands that change reservations; what they do, and as detail the result
	ANAChanges               // states of ANA groups that were changed; the new one, and as detail the group
	Kinds
)

// A Cause is something that happened, and why.
type Cause struct {
	Kind      Kind
	Subsystem string // of KeepAlives
	Cause     string
	Detail    string
}

// Causes count what happens seldom. Any goroutine may use them.
type Causes struct {
	mu sync.Mutex
	n  map[Cause]uint64
}

// maxCauses is how many different ones are counted, so that nobody takes memory with them.
const maxCauses = 4096

// Count counts one.
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

// All are the counts.
func (c *Causes) All() map[Cause]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}
