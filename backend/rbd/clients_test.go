package rbd

import (
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// fakeClients is Clients whose connections are kept.
type fakeClients struct {
	Clients
	mu   sync.Mutex
	made []*fakeConnection
	err  error
}

func newFakeClients() *fakeClients {
	c := &fakeClients{}
	c.connect = func(at ClientConfig) (*Client, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			return nil, c.err
		}
		conn := &fakeConnection{own: "10.0.0.1:0/77"}
		c.made = append(c.made, conn)
		return newClient(conn)
	}
	return c
}

// ended are the connections that have ended.
func (c *fakeClients) ended() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.made {
		for _, what := range conn.done {
			if what == "close" {
				n++
			}
		}
	}
	return n
}

// want checks how many connections were made, and how many of them have ended.
func (c *fakeClients) want(t *testing.T, made, ended int) {
	t.Helper()
	if n := len(c.made); n != made || c.ended() != ended {
		t.Errorf("%d clients made and %d ended, want %d and %d", n, c.ended(), made, ended)
	}
	c.Clients.mu.Lock()
	defer c.Clients.mu.Unlock()
	if made == ended && len(c.all) > 0 {
		t.Errorf("%d clients are kept", len(c.all))
	}
}

// TestClients: images of one configuration and user have one client, from the first to the last of them.
func TestClients(t *testing.T) {
	c := newFakeClients()
	open := func(cfg Config) *Store {
		t.Helper()
		cfg.Clients = &c.Clients
		s, err := openFake("p/i", cfg, func(cfg *Config) (image, error) {
			if cfg.Client == nil {
				t.Error("an image without a client")
			}
			return newFake(t, 1<<20), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	closes := func(s *Store) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	a, b := open(Config{}), open(Config{})
	c.want(t, 1, 0)
	other, elsewhere := open(Config{ID: "other"}), open(Config{Conf: "/etc/ceph/else.conf"})
	c.want(t, 3, 0)
	closes(a)
	c.want(t, 3, 0)
	closes(b)
	c.want(t, 3, 1)
	b = open(Config{})
	c.want(t, 4, 1)
	closes(other)
	closes(elsewhere)
	closes(b)
	c.want(t, 4, 4)
}

// TestClientsAtOnce: images that are opened at the same time have one client, and none is left where all fail.
func TestClientsAtOnce(t *testing.T) {
	c := newFakeClients()
	var stores [16]*Store
	all := func(f func(i int)) {
		var wg sync.WaitGroup
		for i := range stores {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
	}
	open := func(i int) (err error) {
		fake := newFake(t, 1<<20)
		stores[i], err = openFake("p/i", Config{Clients: &c.Clients}, func(*Config) (image, error) { return fake, nil })
		return err
	}
	c.err = unix.EPERM
	all(func(i int) {
		if err := open(i); !errors.Is(err, unix.EPERM) {
			t.Errorf("%v, want %v", err, unix.EPERM)
		}
	})
	c.want(t, 0, 0)
	c.err = nil
	all(func(i int) {
		if err := open(i); err != nil {
			t.Error(err)
		}
	})
	c.want(t, 1, 0)
	all(func(i int) {
		if err := stores[i].Close(); err != nil {
			t.Error(err)
		}
	})
	c.want(t, 1, 1)
}

// TestClientsBlocklisted: when the cluster has refused a client, images that are opened after that get another,
// and the old one ends with those that still have it.
func TestClientsBlocklisted(t *testing.T) {
	c := newFakeClients()
	var images []*fakeImage
	var dialErr, lockErr error
	open := func() (*Store, error) {
		return openFake("p/i", Config{Clients: &c.Clients}, func(*Config) (image, error) {
			i := newFake(t, 1<<20)
			i.lockErr = lockErr
			images = append(images, i)
			return i, dialErr
		})
	}
	must := func(s *Store, err error) *Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := must(open()), must(open())
	write := backend.Request{Op: backend.OpWrite, Length: 4096, Buf: make([]byte, 4096)}
	images[0].errno.Store(int32(blocklisted))
	again := func(s *Store) {
		t.Helper()
		if err := do(t, s, write); !errors.Is(err, backend.ErrFenced) {
			t.Fatal(err)
		}
		if err := s.Clear(); err != nil {
			t.Fatal(err)
		}
	}
	again(a)
	if err := do(t, a, write); err != nil {
		t.Errorf("opened again: %v", err)
	}
	c.want(t, 2, 0)
	d := must(open()) // by the new one
	c.want(t, 2, 0)
	images[1].errno.Store(int32(blocklisted)) // the other image finds it out later
	again(b)
	c.want(t, 2, 0)

	// What is opened finds it out first.
	for _, x := range []struct {
		fails       *error
		made, ended int
	}{{&dialErr, 3, 0}, {&lockErr, 5, 2}} { // the fourth had no other image
		*x.fails = blocklisted
		if _, err := open(); !errors.Is(err, blocklisted) {
			t.Fatal(err)
		}
		*x.fails = nil
		e := must(open())
		c.want(t, x.made, x.ended)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(a.Close(), b.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	c.want(t, 5, 5)
}
