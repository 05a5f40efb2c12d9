package cm

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Exported is the state of an engine with which another engine can continue its connections. It does not include
// connections in time-wait: a repeated DREQ is answered as for an unknown connection, and their queue pair numbers
// may be used again. Nor does it include what the limiter remembers of addresses without a connection.
type Exported struct {
	GUID            wire.GUID    `json:"guid"`
	TransactionHigh uint32       `json:"transaction-high"`
	PSN             wire.PSN     `json:"psn"` // PSN of the next packet from queue pair 1
	Connections     []Connection `json:"connections"`
}

// A Connection is an established connection, or one whose DREQ has not been answered.
type Connection struct {
	ID            wire.CommID       `json:"id"`
	RemoteID      wire.CommID       `json:"remote-id"`
	Peer          netip.Addr        `json:"peer"`
	QPN           rdmatransport.QPN `json:"qpn"`
	PeerQPN       rdmatransport.QPN `json:"peer-qpn"`
	TrafficClass  uint8             `json:"traffic-class"`
	TID           uint64            `json:"tid"`           // of the transaction that created it
	Active        bool              `json:"active"`        // we sent the REQ
	Proven        bool              `json:"proven"`        // an RTU has arrived
	Disconnecting bool              `json:"disconnecting"` // we have sent a DREQ
	StartingPSN   wire.PSN          `json:"starting-psn"`  // of the REQ: distinguishes a repeated one from a new one
	AckTimeout    wire.Timeout      `json:"ack-timeout"`   // of the REQ: determines the length of time-wait
}

// Check returns an error if no engine of that address can have exported s.
func (s *Exported) Check(addr netip.Addr) error {
	if s.PSN > 1<<24-1 {
		return fmt.Errorf("cm: PSN %#x of queue pair 1 has too many bits", s.PSN)
	}
	return s.Restore(0, New(Config{Addr: addr}))
}

// Export returns the engine's state. Connections that are not established yet are dropped and counted. A peer repeats
// its REQ, which is a new one for the next engine.
func Export(e *Engine) Exported {
	out := Exported{GUID: e.cfg.GUID, TransactionHigh: e.cfg.TransactionHigh, PSN: e.psn}
	for _, c := range e.conns {
		switch c.state {
		case established, dreqSent:
			out.Connections = append(out.Connections, Connection{
				ID: c.id, RemoteID: c.remoteID, Peer: c.peer, QPN: c.qpn, PeerQPN: c.peerQPN, TrafficClass: c.tclass, TID: c.tid,
				Active: c.active, Proven: c.proven, Disconnecting: c.state == dreqSent,
				StartingPSN: c.req.StartingPSN, AckTimeout: c.req.AckTimeout,
			})
		case timeWait, refused:
		default:
			e.Counters.HalfOpenMoved++
		}
	}
	slices.SortFunc(out.Connections, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Restore adds the connections to a new engine, whose Config has the exported GUID, TransactionHigh and PSN. DREQs
// are sent again. After an error the engine must not be used.
func (s *Exported) Restore(now time.Duration, e *Engine) error {
	qpns := map[rdmatransport.QPN]bool{}
	for i := range s.Connections {
		x := &s.Connections[i]
		if x.Disconnecting {
			continue
		}
		if err := x.admissible(e); err != nil {
			return err
		}
		if qpns[x.QPN] || e.remoteIDs[remoteID{x.Peer, x.RemoteID}] != nil || e.remoteQPNs[remoteQPN{x.Peer, x.PeerQPN}] != nil {
			return fmt.Errorf("cm: connection %#x has the queue pair or the peer's queue pair or ID of another one", x.ID)
		}
		qpns[x.QPN] = true
		x.resume(now, e)
	}
	for i := range s.Connections {
		if x := &s.Connections[i]; x.Disconnecting {
			if err := x.admissible(e); err != nil {
				return err
			}
			x.resumeEnd(now, e)
		}
	}
	return nil
}

// admissible returns an error if no engine can have the connection.
func (x *Connection) admissible(e *Engine) error {
	_, taken := e.conns[x.ID]
	switch {
	case x.ID == 0 || taken || x.RemoteID == 0:
		return fmt.Errorf("cm: communication ID %#x, or the peer's %#x, is zero or used twice", x.ID, x.RemoteID)
	case !x.Peer.IsValid() || x.Peer.Is4() != e.cfg.Addr.Is4() || x.Peer.Is4In6() || x.Peer.IsUnspecified() || x.Peer.IsMulticast():
		return fmt.Errorf("cm: %v cannot be the peer of %v", x.Peer, e.cfg.Addr)
	case !validQPN(x.QPN) || !validQPN(x.PeerQPN):
		return fmt.Errorf("cm: %#x or %#x is not a queue pair number", x.QPN, x.PeerQPN)
	case x.StartingPSN > 1<<24-1 || x.AckTimeout > 31:
		return fmt.Errorf("cm: starting PSN %#x or timeout %d of connection %#x has too many bits", x.StartingPSN, x.AckTimeout, x.ID)
	}
	return nil
}

// enter adds the connection to the engine.
func (x *Connection) enter(e *Engine) *conn {
	c := &conn{
		id: x.ID, remoteID: x.RemoteID, state: established, active: x.Active, peer: x.Peer, tclass: x.TrafficClass,
		qpn: x.QPN, peerQPN: x.PeerQPN, tid: x.TID, heapIndex: -1,
	}
	c.req.StartingPSN, c.req.AckTimeout = x.StartingPSN, x.AckTimeout
	e.conns[c.id] = c
	return c
}

// resume adds an established connection.
func (x *Connection) resume(now time.Duration, e *Engine) {
	c := x.enter(e)
	e.remoteIDs[remoteID{c.peer, c.remoteID}] = c
	e.remoteQPNs[remoteQPN{c.peer, c.peerQPN}] = c
	if x.Proven {
		e.limiter.proves(now, c)
	}
}

// resumeEnd adds a connection that is being ended. An established one may have the same remote ID or queue pair.
func (x *Connection) resumeEnd(now time.Duration, e *Engine) {
	c := x.enter(e)
	if key := (remoteID{c.peer, c.remoteID}); e.remoteIDs[key] == nil {
		e.remoteIDs[key] = c
	}
	c.disconnect(now, e, int(e.cfg.MaxRetries))
}

// QueuePair returns the queue pair of a connection, and false if the connection is not established.
func QueuePair(e *Engine, id wire.CommID) (rdmatransport.QPN, bool) {
	c := e.conns[id]
	if c == nil || c.state != established {
		return 0, false
	}
	return c.qpn, true
}
