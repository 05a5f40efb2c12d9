// Package connlimit limits the connections of a TCP listener, so that a client with many connections does not lock out
// others.
package connlimit

import (
	"net"
	"net/netip"
	"sync"
)

// Network returns the address by which connections are counted: an IPv4 address, or the /64 network of an IPv6 address,
// since one machine often has all addresses of it.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// A Listener limits the connections of another listener. A connection beyond its network's limit is closed at once. If
// there are too many connections in all, the network with the most connections loses its oldest one.
type Listener struct {
	net.Listener
	total, each int // constant

	mu    sync.Mutex
	count int
	of    map[netip.Addr][]*conn // by Network, in order of arrival
	came  uint64                 // number of connections ever accepted
}

// New returns a Listener with at most total connections at a time, and at most each from one [Network].
func New(l net.Listener, total, each int) *Listener {
	return &Listener{Listener: l, total: total, each: each, of: map[netip.Addr][]*conn{}}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil { // the other end has closed it
			_ = c.Close()
			continue
		}
		admitted := &conn{Conn: c, listener: l, network: Network(at.Addr())}
		if oldest, ok := l.admit(admitted); !ok {
			_ = c.Close()
			continue
		} else if oldest != nil {
			_ = oldest.Close()
		}
		return admitted, nil
	}
}

// admit counts a connection, and returns the connection that must be closed for it, if any.
func (l *Listener) admit(c *conn) (oldest *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of[c.network]) >= l.each {
		return nil, false
	}
	if l.count >= l.total {
		oldest = l.oldestOfMost()
		l.remove(oldest)
	}
	l.came++
	c.came = l.came
	l.of[c.network] = append(l.of[c.network], c)
	l.count++
	return oldest, true
}

// oldestOfMost returns the oldest connection of the network with the most connections; if several networks have the
// most, the oldest of all of them.
func (l *Listener) oldestOfMost() *conn {
	var most []*conn
	for _, of := range l.of {
		if len(of) > len(most) || len(of) == len(most) && of[0].came < most[0].came {
			most = of
		}
	}
	return most[0]
}

// remove stops counting a connection, unless that was done before. It is called with mu held.
func (l *Listener) remove(c *conn) {
	of := l.of[c.network]
	for i := range of {
		if of[i] == c {
			l.of[c.network] = append(of[:i:i], of[i+1:]...)
			l.count--
			break
		}
	}
	if len(l.of[c.network]) == 0 {
		delete(l.of, c.network)
	}
}

// A conn is counted until it is closed.
type conn struct {
	net.Conn
	listener *Listener
	network  netip.Addr
	came     uint64
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
