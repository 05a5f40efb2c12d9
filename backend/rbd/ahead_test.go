package rbd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// aheadBy opens an existing image ahead.
func aheadBy(t *testing.T, client *Client, i image) (*Ahead, error) {
	t.Helper()
	s, err := newStore("rbd/image", Config{Client: client, Size: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.memory, s.closeTime, s.lockTime = heap, CloseTime, lockTime
	s.dial = func(_ Name, cfg *Config) (image, error) {
		if cfg.Size != 0 {
			t.Error("it would be created")
		}
		return i, nil
	}
	return openAhead(s)
}

// TestAhead: an image that was opened ahead becomes a store once its owner has given it up, and uses its client until
// then.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConnection{own: "10.0.0.1:0/77"}
		client, err := newClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		i := newFake(t, 1<<20)
		i.locked, i.lockErr = "another", unix.EROFS
		ahead := func() (*Ahead, error) { return aheadBy(t, client, i) }
		a, err := ahead()
		if err != nil || len(i.data) != 1<<20 {
			t.Fatal(err, len(i.data))
		}
		if _, err := a.Open(); !errors.As(err, new(*LockedError)) || !i.closed {
			t.Errorf("the owner still has it: %v, closed %v", err, i.closed)
		}
		i.locked, i.lockErr, i.closed = "", nil, false
		if a, err = ahead(); err != nil {
			t.Fatal(err)
		}
		s, err := a.Open()
		if err != nil || s.Info().Size != 2<<20 {
			t.Fatalf("%v, %+v", err, s)
		}
		if a, err = ahead(); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); !errors.As(err, new(*HungError)) {
			t.Errorf("the client ends before its images: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); slices.Contains(conn.done, "close") {
			t.Error("the client has ended before the image of a store, in which calls may hang")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ahead(); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("by a client that is closed: %v", err)
		}
		synctest.Wait()
		if last := conn.done[len(conn.done)-1]; last != "close" {
			t.Error(conn.done)
		}
	})
}

func TestAheadRefused(t *testing.T) {
	if _, err := OpenAhead("rbd", Config{}); err == nil {
		t.Error("a name without an image")
	}
	if _, err := OpenAhead("rbd/image", Config{}); err == nil || !strings.Contains(err.Error(), "Config.Client") {
		t.Error(err)
	}
	client, err := newClient(&fakeConnection{own: "10.0.0.1:0/77"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore("rbd/image", Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	s.dial = func(Name, *Config) (image, error) { return nil, unix.ENOENT }
	if _, err := openAhead(s); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	if err := client.Close(); err != nil { // nothing uses it any more
		t.Error(err)
	}
}
