package nbd

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Stats are the counters of a server.
type Stats struct {
	Clients      uint64 // clients accepted
	TooMany      uint64 // clients rejected because there were too many
	Unaccepted   uint64 // times that a client could not be accepted for lack of descriptors or memory
	Stuck        uint64 // clients refused because many have gone whose requests the disk has not completed
	Share        uint64 // clients refused because the remaining places were for other disks
	GaveWay      uint64 // clients in the handshake disconnected to make room for others
	Slow         uint64 // clients that did not complete the handshake in time
	BadHandshake uint64 // clients disconnected for an invalid handshake
	BadRequests  uint64 // clients disconnected for an invalid request
	Lost         uint64 // clients that disconnected without NBD_CMD_DISC
	Refused      uint64 // requests rejected without asking the store
	Failed       uint64 // requests that the store failed
	Requests     uint64 // all requests
}

// Add adds the counters of another server.
func (s *Stats) Add(o Stats) {
	s.Clients += o.Clients
	s.TooMany += o.TooMany
	s.Unaccepted += o.Unaccepted
	s.Stuck += o.Stuck
	s.Share += o.Share
	s.GaveWay += o.GaveWay
	s.Slow += o.Slow
	s.BadHandshake += o.BadHandshake
	s.BadRequests += o.BadRequests
	s.Lost += o.Lost
	s.Refused += o.Refused
	s.Failed += o.Failed
	s.Requests += o.Requests
}

// String returns one line of text: the numbers of clients and requests, and the other counters that are not zero.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clients: %d; requests: %d", s.Clients, s.Requests)
	for _, c := range []struct {
		what string
		n    uint64
	}{
		{"refused", s.Refused}, {"failed", s.Failed}, {"clients refused because there were too many", s.TooMany},
		{"times that a client could not be accepted", s.Unaccepted}, {"clients refused because the disk hangs", s.Stuck},
		{"clients refused because the disk had its maximum", s.Share}, {"clients disconnected in the handshake to make room", s.GaveWay}, {"clients too slow in the handshake", s.Slow},
		{"clients disconnected in the handshake", s.BadHandshake}, {"clients disconnected for invalid requests", s.BadRequests},
		{"clients gone without disconnecting", s.Lost},
	} {
		if c.n > 0 {
			fmt.Fprintf(&b, "; %s: %d", c.what, c.n)
		}
	}
	return b.String()
}

// counters are the counters of Stats. The loop increments them.
type counters struct {
	clients, tooMany, unaccepted, stuck, share, gaveWay, slow, badHandshake, badRequests, lost, refused, failed, requests atomic.Uint64
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.counters
	return Stats{
		Clients: c.clients.Load(), TooMany: c.tooMany.Load(), Unaccepted: c.unaccepted.Load(), Stuck: c.stuck.Load(), Share: c.share.Load(), GaveWay: c.gaveWay.Load(), Slow: c.slow.Load(),
		BadHandshake: c.badHandshake.Load(), BadRequests: c.badRequests.Load(), Lost: c.lost.Load(),
		Refused: c.refused.Load(), Failed: c.failed.Load(), Requests: c.requests.Load(),
	}
}
