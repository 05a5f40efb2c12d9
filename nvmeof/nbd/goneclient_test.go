package nbd

import (
	"bytes"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// reached waits until a counter of the server has a value.
func reached(t *testing.T, what string, counter func() uint64, n uint64) {
	t.Helper()
	for end := time.Now().Add(testTimeout); counter() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %d, want %d", what, counter(), n)
		}
	}
}

func requests(s *Server) func() uint64 { return func() uint64 { return s.Stats().Requests } }
func losses(s *Server) func() uint64   { return func() uint64 { return s.Stats().Lost } }

// later sends a write, and requires that it is not answered, while reads are, until release is called.
func (c *client) later(off uint64, b []byte, release func()) {
	c.t.Helper()
	write := c.ask(wire.Request{Command: wire.CmdWrite, Offset: off, Length: uint32(len(b))}, b)
	for range 3 {
		read := c.ask(wire.Request{Command: wire.CmdRead, Length: 512}, nil)
		if r, _ := c.answer(); r.Cookie != read || r.Err != wire.OK {
			c.t.Errorf("%+v, want the answer to %d: a change comes before that of a client that has gone", r, read)
			release()
			return
		}
	}
	release()
	if r, _ := c.answer(); r.Cookie != write || r.Err != wire.OK {
		c.t.Errorf("%+v, want the answer to %d", r, write)
	}
}

// TestChangesOfGoneClients: acknowledged changes of other clients are not undone by a change of a client that has gone,
// in whatever way it went. Reads do not wait.
func TestChangesOfGoneClients(t *testing.T) {
	a, b := bytes.Repeat([]byte{'a'}, 512), bytes.Repeat([]byte{'b'}, 512)
	for name, goes := range map[string]func(*Server, *client){
		"without a word": func(s *Server, c *client) {
			_ = c.c.Close()
			reached(t, "lost", losses(s), 1)
		},
		"unnoticed": func(_ *Server, c *client) { _ = c.c.Close() },
		"disconnected": func(_ *Server, c *client) {
			c.put(wire.AppendRequest(nil, wire.Request{Command: wire.CmdDisc}))
			_ = c.c.Close()
		},
		"not understood": func(_ *Server, c *client) {
			c.put(make([]byte, wire.RequestSize))
			_ = c.c.Close()
		},
	} {
		for _, hold := range []backendtest.Hold{backendtest.HoldRequest, backendtest.HoldResult} {
			t.Run(name, func(t *testing.T) {
				store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
				s := serve(t, Config{}, store)
				first, sibling := connect(t, s, how{}), connect(t, s, how{})
				fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Count: 1, Hold: hold})
				t.Cleanup(fault.Release)
				first.ask(wire.Request{Command: wire.CmdWrite, Offset: 4096, Length: 512}, a)
				reached(t, "requests", requests(s), 1)
				goes(s, first)
				sibling.later(4096, b, func() {
					later := connect(t, s, how{})
					later.later(8192, b, fault.Release)
				})
				if got := sibling.read(4096, 512); !bytes.Equal(got, b) {
					t.Errorf("read back %q", got[:1])
				}
			})
		}
	}
}

// TestUnbegunChangesOfGoneClients: changes that the store had not begun are never made, whether they wait for another
// change or must first read a block.
func TestUnbegunChangesOfGoneClients(t *testing.T) {
	store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
	s := serve(t, Config{}, store)
	fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Count: 1, Hold: backendtest.HoldRequest})
	t.Cleanup(fault.Release)
	first, other := connect(t, s, how{}), connect(t, s, how{})
	first.ask(wire.Request{Command: wire.CmdWrite, Offset: 100, Length: 100}, random(100))
	first.ask(wire.Request{Command: wire.CmdWrite, Offset: 4096, Length: 512}, random(512))
	first.ask(wire.Request{Command: wire.CmdWrite, Offset: 8192 + 100, Length: 100}, random(100))
	reached(t, "requests", requests(s), 3)
	_ = first.c.Close()
	reached(t, "lost", losses(s), 1)
	other.later(512, random(512), fault.Release)
	for _, off := range []uint64{0, 4096, 8192} {
		if got := other.read(off, 512); !bytes.Equal(got, make([]byte, 512)) {
			t.Errorf("a change at %d was made", off)
		}
	}
}

// TestUnreadChangesOfGoneClients: nor are those that the server reads from such a client only after a later request of
// another client.
func TestUnreadChangesOfGoneClients(t *testing.T) {
	busy, free := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{Log: func(string) { busy <- struct{}{}; <-free }}, newStore(t, 1<<20, 512))
	other, first, bad := connect(t, s, how{}), connect(t, s, how{}), connect(t, s, how{}) // as the loop serves them
	bad.put(make([]byte, wire.RequestSize))
	<-busy
	a, b := bytes.Repeat([]byte{'a'}, 512), bytes.Repeat([]byte{'b'}, 512)
	first.ask(wire.Request{Command: wire.CmdWrite, Length: 512}, a)
	_ = first.c.Close()
	write := other.ask(wire.Request{Command: wire.CmdWrite, Length: 512}, b)
	close(free)
	if r, _ := other.answer(); r.Cookie != write || r.Err != wire.OK {
		t.Errorf("%+v", r)
	}
	reached(t, "lost", losses(s), 1)
	if got := other.read(0, 512); !bytes.Equal(got, b) {
		t.Errorf("read back %q", got[:1])
	}
}

// TestGoneClientsLeaveTheirPlace: likewise for a client that has sent DISC, or more than there is room for, while the
// disk does not answer.
func TestGoneClientsLeaveTheirPlace(t *testing.T) {
	for name, last := range map[string]wire.Request{
		"disconnected": {Command: wire.CmdDisc}, "stalled": {Command: wire.CmdRead, Length: 512},
	} {
		t.Run(name, func(t *testing.T) {
			store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
			s := serve(t, Config{Clients: 1}, store)
			fault := store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Count: depth, Hold: backendtest.HoldRequest})
			t.Cleanup(fault.Release)
			c := connect(t, s, how{})
			for range depth {
				c.ask(wire.Request{Command: wire.CmdRead, Length: 512}, nil)
			}
			c.put(wire.AppendRequest(nil, last))
			reached(t, "requests", requests(s), depth)
			_ = c.c.Close()
			next := dial(t, s)
			for n, _ := next.Read(make([]byte, 18)); n == 0; n, _ = next.Read(make([]byte, 18)) {
				time.Sleep(time.Millisecond)
				next = dial(t, s)
				if t.Failed() || s.Stats().TooMany > 1000 {
					t.Fatal("its place is not free")
				}
			}
		})
	}
}
