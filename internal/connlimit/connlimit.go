// Package connlimit bounds the connections of a TCP listener, so that whoever opens many keeps nobody else out.
package connlimit

import (
	"net"
	"net/netip"
	"sync"
)

// Network is what counts as one address: all addresses of an IPv6 network of 64 bits, since often one machine has them.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// A Listener bounds the connections of another one. A connection that its network has too many of is closed at
// once. Where all networks together have too many, the one that has most of them loses its oldest.
type Listener struct {
	net.Listener
	total, each int // constant

	mu    sync.Mutex
	count int
	of    map[netip.Addr][]*conn // by Network, in the order in which they came
	came  uint64                 // connections, ever
}

// New returns a Listener that has at most total connections at a time, and at most each of one [Network].
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
		if err != nil { // its other end has gone
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

// admit counts a connection, and returns the one that has to go for it, if one has.
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

// oldestOfMost is the oldest connection of the network that has most; of several networks, the oldest of all theirs.
func (l *Listener) oldestOfMost() *conn {
	var most []*conn
	for _, of := range l.of {
		if len(of) > len(most) || len(of) == len(most) && of[0].came < most[0].came {
			most = of
		}
	}
	return most[0]
}

// remove no longer counts a connection, unless it was removed before. With mu held.
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

// A conn counts until it is closed.
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
