package nbd

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Stats count what clients did.
type Stats struct {
	Clients      uint64 // that were accepted
	TooMany      uint64 // that were not, since there were enough
	Unaccepted   uint64 // times that a client had to wait, since the process had no descriptor left or the machine no memory
	Stuck        uint64 // that were refused a disk, since it had not finished the requests of many who had gone
	Share        uint64 // that were refused a disk, since it had as many as leave the other disks theirs
	GaveWay      uint64 // that had not finished the handshake, and made room for others
	Slow         uint64 // that did not finish the handshake in time
	BadHandshake uint64 // that were disconnected for what they sent in it
	BadRequests  uint64 // that were disconnected for what they sent after it
	Lost         uint64 // that went without saying so
	Refused      uint64 // requests that were answered with an error at once
	Failed       uint64 // requests that the store failed
	Requests     uint64 // all
}

// Add adds what another server has counted.
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

// String is a line for people: what was served, and what went wrong if something did.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clients: %d; requests: %d", s.Clients, s.Requests)
	for _, c := range []struct {
		what string
		n    uint64
	}{
		{"refused", s.Refused}, {"failed", s.Failed}, {"clients too many", s.TooMany},
		{"times that a client could not be accepted", s.Unaccepted}, {"clients refused because the disk hangs", s.Stuck},
		{"clients refused because the disk had its maximum", s.Share}, {"clients disconnected in the handshake to make room", s.GaveWay}, {"clients too slow in the handshake", s.Slow},
		{"clients disconnected in the handshake", s.BadHandshake}, {"clients disconnected for what they sent", s.BadRequests},
		{"clients gone without disconnecting", s.Lost},
	} {
		if c.n > 0 {
			fmt.Fprintf(&b, "; %s: %d", c.what, c.n)
		}
	}
	return b.String()
}

// counters are those of Stats. The loop writes them.
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
