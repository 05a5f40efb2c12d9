package control

import (
	"maps"
	"sync"
)

// A Request is a kind of request to the API, and how it ended.
type Request struct {
	Method, Route string // as in the API's description; both are empty for what is no route
	Code          int    // of HTTP
}

// requests count those to the API.
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

// Requests counts the requests to the API of a Manager by what they were and how they ended.
func Requests(m *Manager) map[Request]uint64 {
	m.requests.mu.Lock()
	defer m.requests.mu.Unlock()
	return maps.Clone(m.requests.n)
}
