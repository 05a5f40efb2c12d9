// Package bounded bounds how many connections a server has at a time.
package bounded

import (
	"net"
	"sync"
)

type listener struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once
}

// New returns a listener that accepts so many connections of another at a time; more wait
// in its backlog. Closing it closes the other.
func New(l net.Listener, connections int) net.Listener {
	return &listener{Listener: l, free: make(chan struct{}, connections), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &conn{Conn: c, free: l.free}, nil
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type conn struct {
	net.Conn
	free chan struct{}
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { <-c.free })
	return c.Conn.Close()
}
