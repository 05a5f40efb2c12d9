package softroce

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
)

// maxBacklog is the maximum number of requests that wait for a listener's Accept.
const maxBacklog = 256

// A backlog is the FIFO queue of requests that wait for a listener's Accept. The manager's shard adds them and any
// goroutine takes them.
type backlog struct {
	mu       sync.Mutex
	requests []*connRequest
	ready    chan struct{} // holds a token if requests may be waiting
}

// put adds a request. If the backlog is full, it removes and returns the oldest request of the address with the most
// requests, so that a flood from one address leaves room for the requests of others.
func (b *backlog) put(r *connRequest) (out *connRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == maxBacklog {
		i := b.heaviest()
		out = b.requests[i]
		out.answered.Store(true)
		b.requests = slices.Delete(b.requests, i, i+1)
	}
	b.requests = append(b.requests, r)
	b.signal()
	return out
}

// heaviest returns the index of the oldest request of the address with the most requests.
func (b *backlog) heaviest() int {
	count, most := map[netip.Addr]int{}, 0
	for _, r := range b.requests {
		a := cm.OriginOf(r.peer.Addr.Addr())
		count[a]++
		most = max(most, count[a])
	}
	return slices.IndexFunc(b.requests, func(r *connRequest) bool { return count[cm.OriginOf(r.peer.Addr.Addr())] == most })
}

// take returns the oldest request, or nil.
func (b *backlog) take() *connRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == 0 {
		return nil
	}
	r := b.requests[0]
	b.requests[0] = nil
	if b.requests = b.requests[1:]; len(b.requests) > 0 {
		b.signal() // another goroutine may be waiting in Accept
	}
	return r
}

func (b *backlog) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}
