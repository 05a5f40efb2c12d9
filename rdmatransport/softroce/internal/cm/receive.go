package cm

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Receive handles a packet to queue pair 1 whose ICRC is correct. It does not retain p.
func (e *Engine) Receive(now time.Duration, source netip.AddrPort, p *wire.Packet) {
	from := source.Addr().Unmap() // the source port is arbitrary: it spreads load
	m, h, ok := e.admit(from, p)
	if !ok {
		return
	}
	e.Counters.Received++
	switch h.Attribute {
	case wire.AttrREQ:
		e.receiveREQ(now, from, m, h.TID)
	case wire.AttrMRA:
		e.receiveMRA(now, from, m)
	case wire.AttrREJ:
		e.receiveREJ(now, from, m)
	case wire.AttrREP:
		e.receiveREP(now, from, m, h.TID)
	case wire.AttrRTU:
		e.receiveRTU(now, from, m)
	case wire.AttrDREQ:
		e.receiveDREQ(now, from, m, h.TID)
	case wire.AttrDREP:
		e.receiveDREP(now, from, m)
	default:
		e.Counters.UnknownAttribute++
	}
}

// admit makes the checks that are common to all messages.
func (e *Engine) admit(from netip.Addr, p *wire.Packet) (*wire.MAD, wire.MADHeader, bool) {
	n := &e.Counters
	switch {
	case p.Opcode != wire.UDSendOnly:
		n.NotUDSend++
	case p.DestQPN != wire.CMQPN:
		n.WrongQPN++
	case p.PKey&0x7fff != wire.DefaultPKey&0x7fff:
		n.WrongPKey++
	case p.DETH.QKey != wire.CMQKey:
		n.WrongQKey++
	case !from.IsValid() || from.Is4() != e.cfg.Addr.Is4() || from.IsUnspecified() || from.IsMulticast():
		n.SourceMismatch++
	default:
		m, h, fault := wire.ParseMAD(p.Payload)
		if fault == wire.OK {
			return m, h, true
		}
		n.BadMAD++
	}
	return nil, wire.MADHeader{}, false
}

// lookup returns the connection with that communication ID of ours, or nil.
func (e *Engine) lookup(id wire.CommID) *conn { return e.conns[id] }

// find returns the connection that a message refers to by our communication ID and, unless theirs is 0, the peer's.
// If there is none, it counts the reason and returns nil.
func (e *Engine) find(from netip.Addr, ours, theirs wire.CommID) *conn {
	c := e.lookup(ours)
	switch {
	case c == nil:
		e.Counters.UnknownID++
	case c.peer != from:
		e.Counters.SourceMismatch++
	case theirs != 0 && c.remoteID != 0 && c.remoteID != theirs:
		e.Counters.UnknownID++
	default:
		return c
	}
	return nil
}
