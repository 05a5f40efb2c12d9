package control

import (
	"maps"
	"sync"
)

// A Request is a kind of API request and its result.
type Request struct {
	Method, Route string // as in the API's description; both empty if the request has no route
	Code          int    // HTTP status code
}

// requests counts API requests.
type requests struct {
	mu sync.Mutex
	n  map[Request]uint64
}

func (c *requests) count(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[Request]uint64)
	}
	c.n[r]++
}

// Requests returns the number of API requests of a Manager by kind and result.
func Requests(m *Manager) map[Request]uint64 {
	m.requests.mu.Lock()
	defer m.requests.mu.Unlock()
	return maps.Clone(m.requests.n)
}
