package rbd

import (
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// fakeClients is Clients that records its connections.
type fakeClients struct {
	Clients
	mu   sync.Mutex
	made []*fakeConnection
	err  error
}

func newFakeClients() *fakeClients {
	c := &fakeClients{Clients: Clients{Number: 1}}
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

// ended returns the connections that have ended.
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

// want checks how many connections were made and how many have ended.
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

// TestClients: images of one configuration and user share a client, from the first to the last of them.
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

// TestClientsNumber: images are distributed over as many clients as allowed.
func TestClientsNumber(t *testing.T) {
	b := newBlocklist(t)
	b.Number = 3
	var all []*Store
	for n, want := range []int{1, 2, 3, 3, 3, 3} {
		all = append(all, b.open())
		if len(b.made) != want {
			t.Errorf("%d clients for %d images, want %d", len(b.made), n+1, want)
		}
	}
	for _, one := range b.all {
		if one.images != 2 {
			t.Errorf("a client has %d images of 6", one.images)
		}
	}
	b.close(all...)
	b.want(t, 3, 3)
	if n := new(Clients).number(); n < 1 {
		t.Errorf("%d clients by default", n)
	}
}

// TestClientsAtOnce: images that are opened concurrently share a client, and none is left if all fail.
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

// blocklist is the state of a cluster: images opened with a blocklisted client fail, at once or when they request their
// lock.
type blocklist struct {
	*fakeClients
	t       *testing.T
	refused map[*Client]bool
	lock    bool // the lock fails, not the opening
	images  []*fakeImage
}

func newBlocklist(t *testing.T) *blocklist {
	return &blocklist{newFakeClients(), t, map[*Client]bool{}, false, nil}
}

func (b *blocklist) open() *Store {
	b.t.Helper()
	s, err := openFake("p/i", Config{Clients: &b.Clients}, func(cfg *Config) (image, error) {
		i := newFake(b.t, 1<<20)
		if b.refused[cfg.Client] {
			if !b.lock {
				return nil, blocklisted
			}
			i.lockErr = blocklisted
		}
		b.images = append(b.images, i)
		return i, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// refuse makes the cluster refuse the client of images that are opened now.
func (b *blocklist) refuse() {
	for _, one := range b.all {
		b.refused[one.client] = true
	}
}

func (b *blocklist) close(stores ...*Store) {
	b.t.Helper()
	for _, s := range stores {
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

var writesBlock = backend.Request{Op: backend.OpWrite, Length: 4096, Buf: make([]byte, 4096)}

// TestClientsBlocklisted: when the cluster has refused a client, images opened later get another one. The old one ends
// with the images that still use it.
func TestClientsBlocklisted(t *testing.T) {
	b := newBlocklist(t)
	first, second := b.open(), b.open()
	again := func(s *Store, i *fakeImage, errno unix.Errno) {
		t.Helper()
		i.errno.Store(int32(errno))
		if err := do(t, s, writesBlock); !errors.Is(err, backend.ErrFenced) {
			t.Fatal(err)
		}
		if err := s.Clear(); err != nil {
			t.Fatal(err)
		}
		if err := do(t, s, writesBlock); err != nil {
			t.Errorf("opened again: %v", err)
		}
	}
	b.refuse()
	again(first, b.images[0], blocklisted)
	b.want(t, 2, 0)
	third := b.open() // by the new one
	b.want(t, 2, 0)
	again(second, b.images[1], blocklisted) // it finds it out later
	b.want(t, 2, 0)
	b.refuse()
	again(third, b.images[3], unix.EROFS) // the library says so first
	b.want(t, 3, 0)
	b.close(first, second)
	b.want(t, 3, 1) // the third still has an image of the second client
	b.close(third)
	b.want(t, 3, 3)
}

// TestClientsOpenedRefused: the first image that finds its client refused is opened with another one.
func TestClientsOpenedRefused(t *testing.T) {
	for _, lock := range []bool{false, true} {
		b := newBlocklist(t)
		first := b.open()
		b.lock = lock
		b.refuse()
		second := b.open()
		b.want(t, 2, 0)
		b.close(first)
		b.want(t, 2, 1)
		b.close(second)
		b.want(t, 2, 2)
	}
}

// TestClientsLate: a late answer of a previous image neither fails the present one nor ends its client.
func TestClientsLate(t *testing.T) {
	b := newBlocklist(t)
	s := b.open()
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := b.images[0]
	old.silent.Store(true)
	q.Submit([]backend.Request{{Op: backend.OpWrite, Offset: 8192, Length: 4096, Buf: make([]byte, 4096)}})
	old.silent.Store(false)
	old.errno.Store(int32(blocklisted))
	if err := do(t, s, writesBlock); !errors.Is(err, backend.ErrFenced) {
		t.Fatal(err)
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	old.answer()
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
	}
	if !errors.Is(got[0].Err, backend.ErrFenced) || s.Failed() != nil || len(b.all) != 1 {
		t.Errorf("a late answer: %v; failed: %v; %d clients for new images", got[0].Err, s.Failed(), len(b.all))
	}
	if err := do(t, s, writesBlock); err != nil {
		t.Error(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	b.close(s)
	b.want(t, 2, 2)
}

// TestClientsRefresh: operations without a request detect it, too.
func TestClientsRefresh(t *testing.T) {
	for name, ask := range map[string]func(*Store) error{
		"refresh":   func(s *Store) error { _, err := s.Refresh(); return err },
		"extend":    func(s *Store) error { return s.Extend(2 << 20) },
		"allocated": func(s *Store) error { _, err := s.Allocated(); return err },
	} {
		b := newBlocklist(t)
		s := b.open()
		b.images[0].shutErr = blocklisted
		if err := ask(s); !errors.Is(err, blocklisted) || len(b.all) > 0 {
			t.Errorf("%s: %v; %d clients for new images", name, err, len(b.all))
		}
		b.images[0].shutErr = nil
		b.close(s)
	}
}
