package connlimit

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestNetwork: an IPv6 /64 network counts as one address, whatever the interface.
func TestNetwork(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8::1": "2001:db8::", "fe80::1%lo": "fe80::",
	} {
		if got := Network(netip.MustParseAddr(a)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts as %v, want %s", a, got, want)
		}
	}
}

// crowd is a listener with peers at addresses of this machine, and the connections that it has accepted.
type crowd struct {
	t        *testing.T
	at       string
	accepted chan net.Conn
}

func newCrowd(t *testing.T, total, each int) *crowd {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, total, each)
	c := &crowd{t, l.Addr().String(), make(chan net.Conn, 64)}
	go func() { // ends when the listener is closed
		for {
			n, err := l.Accept()
			if err != nil {
				return
			}
			c.accepted <- n
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return c
}

func (c *crowd) dial(from string) net.Conn {
	c.t.Helper()
	n, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", c.at)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = n.Close() })
	return n
}

// admitted returns the other end of an accepted connection.
func (c *crowd) admitted(from string) (mine, theirs net.Conn) {
	c.t.Helper()
	mine = c.dial(from)
	select {
	case theirs = <-c.accepted:
		return mine, theirs
	case <-time.After(30 * time.Second):
		c.t.Fatalf("%s is not let in", from)
		return nil, nil
	}
}

// wantClosed requires that the listener closes the connection.
func wantClosed(t *testing.T, what string, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err := c.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); err == nil || ok && timeout.Timeout() {
		t.Errorf("%s is open", what)
	}
}

func wantOpen(t *testing.T, what string, mine, theirs net.Conn) {
	t.Helper()
	if _, err := theirs.Write([]byte{1}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	_ = mine.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := mine.Read(make([]byte, 1)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestEach: an address has at most its number of connections, and the place of a closed one becomes free.
func TestEach(t *testing.T) {
	c := newCrowd(t, 8, 2)
	_, first := c.admitted("127.0.0.31")
	c.admitted("127.0.0.31")
	wantClosed(t, "one too many", c.dial("127.0.0.31"))
	c.admitted("127.0.0.32")
	_ = first.Close()
	_ = first.Close() // counts once
	c.admitted("127.0.0.31")
	wantClosed(t, "one too many", c.dial("127.0.0.31"))
}

// TestTotal: if all places are taken, a new connection replaces the oldest one of the address with the most
// connections; an address with one connection keeps it.
func TestTotal(t *testing.T) {
	c := newCrowd(t, 5, 3)
	honest, theirs := c.admitted("127.0.0.33")
	oldest, _ := c.admitted("127.0.0.31")
	c.admitted("127.0.0.31")
	c.admitted("127.0.0.32")
	c.admitted("127.0.0.32")
	c.admitted("127.0.0.34")
	wantClosed(t, "the oldest of those that have two", oldest)
	c.admitted("127.0.0.35") // now each has one; the oldest is closed next
	wantOpen(t, "the honest client's", honest, theirs)
	c.admitted("127.0.0.36")
	wantClosed(t, "the oldest of all", honest)
}
