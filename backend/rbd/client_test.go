package rbd

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A fakeConnection replaces a client of librados.
type fakeConnection struct {
	own     string
	err     error
	done    []string
	blocked map[string]string
	epoch   uint64
	full    string        // a pool that executes no writes
	hold    chan struct{} // nil: it answers
}

func (c *fakeConnection) Addresses() (string, error) { return c.own, c.err }

func (c *fakeConnection) FSID() (string, error) { return "cluster", c.err }

func (c *fakeConnection) Epoch() (uint64, error) { return c.epoch, c.do("epoch") }

func (c *fakeConnection) visit(pool, namespace string) error {
	return c.do("visit " + pool + "," + namespace)
}

func (c *fakeConnection) holds(pool, namespace string, most time.Duration) (bool, error) {
	return pool == c.full, c.do("write " + pool + "," + namespace + " " + most.String())
}

func (c *fakeConnection) do(what string) error {
	if c.hold != nil {
		<-c.hold
	}
	c.done = append(c.done, what)
	return c.err
}

func (c *fakeConnection) Block(address string, most time.Duration) error {
	return c.do("block " + address + " " + most.String())
}

func (c *fakeConnection) Unblock(address string) error       { return c.do("unblock " + address) }
func (c *fakeConnection) AwaitMap() error                    { return c.do("map") }
func (c *fakeConnection) blocks() (map[string]string, error) { return c.blocked, c.do("list") }
func (c *fakeConnection) Close()                             { _ = c.do("close") }

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]string{
		"10.0.0.1:0/77":                       {"10.0.0.1:0/77"},
		"[v2:10.0.0.1:0/77,v1:10.0.0.1:0/77]": {"10.0.0.1:0/77", "10.0.0.1:0/77"},
		"v2:[fd00::1]:0/77":                   {"[fd00::1]:0/77"},
		"[fd00::1]:0/77":                      {"[fd00::1]:0/77"},
	} {
		c, err := newClient(&fakeConnection{own: text})
		if err != nil || !slices.Equal(c.Addresses(), want) {
			t.Errorf("%s: %q, %v", text, c.Addresses(), err)
		}
	}
	refused := &fakeConnection{err: unix.EPERM}
	if _, err := newClient(refused); err != unix.EPERM || !slices.Equal(refused.done, []string{"close"}) {
		t.Errorf("%v, %q", err, refused.done)
	}
	if _, err := Connect(ClientConfig{ID: "client.admin"}); err == nil || !strings.Contains(err.Error(), "leave") {
		t.Errorf("connect: %v", err)
	}
}

func TestFence(t *testing.T) {
	conn := &fakeConnection{own: "10.0.0.1:0/77", blocked: map[string]string{"10.0.0.2:0/1": "2026-11-24T05:28:46.144723+0000", "10.0.0.9:0/1": "?"}}
	c, err := newClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, others := t.Context(), []string{"v2:10.0.0.2:0/1", "10.0.0.3:0/1"}
	for want, err := range map[string]error{
		"no client address": c.Fence(ctx, nil, 0),
		"itself":            c.Fence(ctx, []string{"10.0.0.3:0/1", "v2:10.0.0.1:0/77"}, 0),
		"one second":        c.Fence(ctx, others, time.Millisecond),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := errors.Join(c.Fence(ctx, others, 0), c.AwaitFence(ctx)); err != nil {
		t.Error(err)
	}
	got, err := c.Fenced(ctx, others)
	if want := map[string]time.Time{others[0]: time.Date(2026, 11, 24, 5, 28, 46, 144723000, time.UTC)}; err != nil || !got[others[0]].Equal(want[others[0]]) || len(got) != 1 {
		t.Errorf("fenced: %v, %v", got, err)
	}
	if _, err := c.Fenced(ctx, []string{"10.0.0.9:0/1"}); err == nil {
		t.Error("a time that is none is taken")
	}
	if err := c.Unfence(ctx, others); err != nil {
		t.Error(err)
	}
	want := []string{"block 10.0.0.2:0/1 1h0m0s", "block 10.0.0.3:0/1 1h0m0s", "map", "map", "list", "list", "unblock 10.0.0.2:0/1", "unblock 10.0.0.3:0/1"}
	if !reflect.DeepEqual(conn.done, want) {
		t.Errorf("done: %q, want %q", conn.done, want)
	}
	conn.err = unix.EACCES
	if _, err := c.Fenced(ctx, others); err != unix.EACCES {
		t.Errorf("fenced: %v", err)
	}
	if err := c.Fence(ctx, others, 0); err != unix.EACCES {
		t.Errorf("fence: %v", err)
	}
}

// TestSucceed: the lock of a fenced owner is broken before the library is asked for it. No other lock is broken, nor
// that of an owner whose fence has ended or ends soon.
func TestSucceed(t *testing.T) {
	c, err := newClient(&fakeConnection{own: "10.0.0.1:0/77"})
	if err != nil {
		t.Fatal(err)
	}
	open := func(owner string) error {
		i := newFake(t, 1<<20)
		i.lockErr, i.locked = unix.EROFS, owner
		s, err := openFake("p/i", Config{Client: c}, func(*Config) (image, error) { return i, nil })
		if err == nil {
			err = s.Close()
		}
		return err
	}
	for address, most := range map[string]time.Duration{"v2:10.0.0.2:0/1": 0, "10.0.0.3:0/1": time.Minute, "10.0.0.4:0/1": time.Second, "10.0.0.5:0/1": time.Minute} {
		if err := c.Fence(t.Context(), []string{address}, most); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Unfence(t.Context(), []string{"10.0.0.5:0/1"}); err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	for owner, broken := range map[string]bool{"10.0.0.2:0/1": true, "10.0.0.3:0/1": true, "10.0.0.4:0/1": false, "10.0.0.5:0/1": false, "10.0.0.6:0/1": false} {
		if err := open(owner); broken && err != nil || !broken && !errors.As(err, &locked) {
			t.Errorf("the lock of %s: %v", owner, err)
		}
	}
}

// TestFenceUnanswered: a fence that the cluster does not confirm does not count, and no memory that the library uses is
// freed.
func TestFenceUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConnection{own: "10.0.0.1:0/77", hold: make(chan struct{})}
		c, err := newClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Fence(ctx, []string{"10.0.0.2:0/1"}, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fence: %v", err)
		}
		var hung *HungError
		if err := c.Close(); !errors.As(err, &hung) || slices.Contains(conn.done, "close") {
			t.Errorf("close: %v, %q", err, conn.done)
		}
		close(conn.hold)
		synctest.Wait()
		if err := c.Close(); err != nil || !slices.Contains(conn.done, "close") {
			t.Errorf("close again: %v, %q", err, conn.done)
		}
		if err := c.AwaitFence(t.Context()); err != backend.ErrClosed {
			t.Errorf("of a client that was closed: %v", err)
		}
	})
}

// TestAwaitFence: the placement groups of a pool are asked once after each fence and for each map.
func TestAwaitFence(t *testing.T) {
	conn := &fakeConnection{own: "10.0.0.1:0/77", epoch: 7}
	c, err := newClient(conn)
	if err != nil || c.Cluster() != "cluster" {
		t.Fatal(c, err)
	}
	await := func(want ...string) {
		t.Helper()
		conn.done = nil
		if err := c.AwaitFence(t.Context(), "rbd", "rbd/a"); err != conn.err && !errors.Is(err, conn.err) || !slices.Equal(conn.done, want) {
			t.Errorf("%v, done %q, want %q", err, conn.done, want)
		}
	}
	await("epoch", "map", "visit rbd,", "epoch", "map", "visit rbd,a")
	await("epoch", "epoch")
	conn.epoch++
	await("epoch", "map", "visit rbd,", "epoch", "map", "visit rbd,a")
	if err := c.Fence(t.Context(), []string{"10.0.0.2:0/1"}, 0); err != nil {
		t.Error(err)
	}
	await("epoch", "map", "visit rbd,", "epoch", "map", "visit rbd,a")
	conn.epoch, conn.err = 9, unix.EIO
	await("epoch")
	conn.err = nil
	await("epoch", "map", "visit rbd,", "epoch", "map", "visit rbd,a")
}

// TestHolding: a pool holds writes only if it answers after a write was not executed.
func TestHolding(t *testing.T) {
	conn := &fakeConnection{own: "10.0.0.1:0/77", full: "data"}
	c, err := newClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Holding(t.Context(), "rbd/a", "data", "more")
	if want := []string{"write rbd,a 1s", "write data, 1s", "visit data,"}; err != nil || got != "data" || !slices.Equal(conn.done, want) {
		t.Errorf("%q, %v, done %q", got, err, conn.done)
	}
	if got, err := c.Holding(t.Context(), "rbd"); err != nil || got != "" {
		t.Errorf("it executes writes: %q, %v", got, err)
	}
	conn.err = unix.EIO
	if got, err := c.Holding(t.Context(), "data"); !errors.Is(err, unix.EIO) || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAwaitFenceUnanswered: while an OSD hangs, one call is outstanding at the cluster for all waiting callers.
func TestAwaitFenceUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConnection{own: "10.0.0.1:0/77", epoch: 7, hold: make(chan struct{})}
		c, err := newClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.AwaitFence(ctx, "rbd"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		close(conn.hold)
		synctest.Wait()
		if want := []string{"epoch", "map", "visit rbd,"}; !slices.Equal(conn.done, want) {
			t.Errorf("done %q, want %q", conn.done, want)
		}
		if err := errors.Join(c.AwaitFence(t.Context(), "rbd"), c.Close()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := c.AwaitFence(t.Context(), "rbd"); !errors.Is(err, backend.ErrClosed) {
				t.Errorf("of a client that was closed: %v", err)
			}
		}
	})
}

// TestReach: the placement groups of the pools are asked each time, by one call at a time, and not by a closed client.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConnection{own: "10.0.0.1:0/77"}
		c, err := newClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			conn.done = nil
			if err := c.Reach(t.Context(), "rbd", "rbd/a"); err != nil || !slices.Equal(conn.done, []string{"visit rbd,", "visit rbd,a"}) {
				t.Errorf("%v, %q", err, conn.done)
			}
		}
		conn.done, conn.hold = nil, make(chan struct{})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.Reach(ctx, "rbd"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		close(conn.hold)
		if synctest.Wait(); !slices.Equal(conn.done, []string{"visit rbd,"}) {
			t.Errorf("three calls that hang: %q", conn.done)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := c.Reach(t.Context(), "rbd"); !errors.Is(err, backend.ErrClosed) {
				t.Errorf("of a client that was closed: %v", err)
			}
		}
	})
}

// TestAwaitFenceTogether: the cluster is asked once for calls that wait concurrently, and once more for calls that came
// after it was asked.
func TestAwaitFenceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConnection{own: "10.0.0.1:0/77", epoch: 7, hold: make(chan struct{})}
		c, err := newClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := c.AwaitFence(t.Context(), "rbd"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(conn.hold)
		all.Wait()
		if want := []string{"epoch", "map", "visit rbd,", "epoch"}; !slices.Equal(conn.done, want) && !slices.Equal(conn.done, want[:3]) {
			t.Errorf("done %q, want %q", conn.done, want)
		}
	})
}
