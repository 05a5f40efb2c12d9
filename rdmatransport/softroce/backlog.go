package softroce

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
)

// maxBacklog is how many requests wait for a listener's consumer.
const maxBacklog = 256

// A backlog has the requests that wait for a listener's consumer, in order. The manager's
// shard puts them there, and any goroutine takes them.
type backlog struct {
	mu       sync.Mutex
	requests []*connRequest
	ready    chan struct{} // has a token when there may be a request
}

// put adds a request, and returns one that there is no room for: the oldest of the address
// that has most, so that a flood from one address leaves room for the requests of others.
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

// heaviest is the oldest request of the address that has most.
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
		b.signal() // there may be another consumer
	}
	return r
}

func (b *backlog) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}
