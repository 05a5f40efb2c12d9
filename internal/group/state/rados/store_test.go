package rados

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/statetest"
)

func put(key, value string) state.Txn {
	return state.Txn{Then: []state.Op{{Key: key, Value: []byte(value)}}}
}

// done executes a transaction.
func done(t *testing.T, s *Store, txn state.Txn) state.Revision {
	t.Helper()
	r, err := s.Txn(t.Context(), txn)
	if err != nil || !r.Done {
		t.Fatalf("%+v: %+v, %v", txn, r, err)
	}
	return r.Revision
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Group: "a"}, "rados://"},
		{Config{Pool: "p"}, "rados://"},
		{Config{Pool: "p/q", Group: "a"}, "slash"},
		{Config{Pool: "p", Group: "a\x00"}, "zero byte"},
		{Config{Pool: "p", Group: "a", Timeout: time.Second}, "at least 5s"},
	} {
		if _, err := Open(t.Context(), tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.cfg, err, tt.want)
		}
	}
	if got := (&Config{Timeout: time.Minute}).timeout(); got != time.Minute || (&Config{}).timeout() != 20*time.Second {
		t.Errorf("timeout %v", got)
	}
	if got := (&Config{Group: "a"}).object(); got != "nvmeof.group.a" {
		t.Error(got)
	}
}

func TestOpen(t *testing.T) {
	o := newFake()
	o.keys = map[string][]byte{}
	_, err := open(t.Context(), Config{Pool: "p", Group: "a"}, func(*Config, []step) (object, error) { return o, nil })
	if !errors.Is(err, errGone) || o.closed != 1 {
		t.Errorf("an object of somebody else: %v", err)
	}
	_, err = open(t.Context(), Config{Pool: "p", Group: "a"}, func(*Config, []step) (object, error) { return nil, unix.EPERM })
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("refused: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := newFake()
		_, err := open(ctx, Config{Pool: "p", Group: "a"}, func(*Config, []step) (object, error) { time.Sleep(time.Minute); return o, nil })
		if !errors.Is(err, state.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cluster that does not answer: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if o.closed != 1 {
			t.Error("what was opened too late is left open")
		}
	})
}

func TestTxn(t *testing.T) {
	s, ctx := fakeStore(t, newFake()), t.Context()
	defer s.Close()
	r1 := done(t, s, put("a/1", "one"))
	r2 := done(t, s, state.Txn{If: []state.Compare{{Key: "a/1", Revision: r1}, {Key: "a/2"}}, Then: []state.Op{{Key: "a/2", Value: nil}, {Key: "b\x00\x01", Value: []byte("two")}}})
	if r2 <= r1 {
		t.Errorf("revisions %d, %d", r1, r2)
	}
	if r, err := s.Txn(ctx, state.Txn{If: []state.Compare{{Key: "a/1"}}, Then: put("a/1", "no").Then}); err != nil || r.Done || r.Revision != r2 {
		t.Errorf("a comparison that does not hold: %+v, %v", r, err)
	}
	got, err := s.Get(ctx, "")
	want := state.Snapshot{Revision: r2, Entries: []state.Entry{{Key: "a/1", Value: []byte("one"), Revision: r1}, {Key: "a/2", Value: []byte{}, Revision: r2}, {Key: "b\x00\x01", Value: []byte("two"), Revision: r2}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	r3 := done(t, s, state.Txn{Then: []state.Op{{Key: "a/1", Delete: true}, {Key: "never", Delete: true}}})
	if got, err := s.Get(ctx, "a/"); err != nil || got.Revision != r3 || len(got.Entries) != 1 {
		t.Errorf("after a deletion: %+v, %v", got, err)
	}
	done(t, s, state.Txn{If: []state.Compare{{Key: "a/1"}}})
}

func TestSuite(t *testing.T) {
	statetest.Suite{In: synctest.Test, New: func(t *testing.T) statetest.System {
		o := newFake()
		return statetest.System{
			Open:        func() state.Store { return fakeStore(t, o) },
			LoseReplies: func(on bool) { o.set(func() { o.lossy = on }) },
			Cut: func(on bool) {
				o.set(func() {
					if o.errno = 0; on {
						o.errno = unix.ETIMEDOUT
					}
				})
			},
		}
	}}.Run(t)
}

// TestCompeting: what several stores add is summed up correctly.
func TestCompeting(t *testing.T) {
	o := newFake()
	var wg sync.WaitGroup
	for range 4 {
		s := fakeStore(t, o)
		for range 2 {
			wg.Go(func() {
				for added := 0; added < 20; {
					got, err := s.Get(t.Context(), "sum")
					if err != nil {
						t.Error(err)
						return
					}
					var sum uint64
					var at state.Revision
					for _, e := range got.Entries {
						sum, at = binary.BigEndian.Uint64(e.Value), e.Revision
					}
					r, err := s.Txn(t.Context(), state.Txn{If: []state.Compare{{Key: "sum", Revision: at}},
						Then: []state.Op{{Key: "sum", Value: binary.BigEndian.AppendUint64(nil, sum+1)}}})
					if err != nil {
						t.Error(err)
						return
					}
					if r.Done {
						added++
					}
				}
			})
		}
	}
	wg.Wait()
	if got := binary.BigEndian.Uint64(o.keys["vsum"][8:]); got != 160 {
		t.Errorf("the sum is %d, want 160", got)
	}
	if got := revisionOf(o.keys[counter]); got != first+160 {
		t.Errorf("revision %d after 160 steps", got)
	}
}

// TestPages: several pages together show the state at one revision.
func TestPages(t *testing.T) {
	o := newFake()
	s := fakeStore(t, o)
	for i := range 200 {
		done(t, s, put(fmt.Sprintf("k%03d", i), "x"))
	}
	o.most = 30
	reads := 0
	o.read1 = func() {
		if reads++; reads == 3 || reads == 7 { // two keys change while the pages are read
			_ = o.write(stepsOf(&state.Txn{Then: []state.Op{{Key: "k000", Value: []byte{byte(reads)}}, {Key: "k199", Value: []byte{byte(reads)}}}}, revisionOf(o.keys[counter])))
		}
	}
	got, err := s.Get(t.Context(), "k")
	if err != nil || len(got.Entries) != 200 || got.Entries[0].Value[0] != 7 || got.Entries[199].Value[0] != 7 || got.Revision != revisionOf(o.keys[counter]) {
		t.Errorf("%d entries at revision %d, %v", len(got.Entries), got.Revision, err)
	}
	p := page{most: 100}
	p.resize(pageBytes + 1)
	if p.most != 50 {
		t.Errorf("a page of %d entries after a large one", p.most)
	}
	o.keys["vkbad"] = []byte("x")
	if got, err := s.Get(t.Context(), "k"); err != nil || len(got.Entries) != 201 || string(got.Entries[200].Value) != "x" {
		t.Errorf("with a value that was put by hand: %d entries, %v", len(got.Entries), err)
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		errno       unix.Errno
		write, read error
		text        string
	}{
		{unix.ETIMEDOUT, state.ErrUnknown, state.ErrUnavailable, "timed out"},
		{unix.ESHUTDOWN, state.ErrUnknown, state.ErrUnavailable, ""},
		{unix.EIO, state.ErrUnknown, state.ErrUnavailable, ""},
		{unix.ENOENT, unix.ENOENT, unix.ENOENT, "its pool was removed"},
		{unix.EOPNOTSUPP, unix.EOPNOTSUPP, unix.EOPNOTSUPP, "replicated"},
		{unix.EPERM, state.ErrRefused, state.ErrRefused, "capabilities"},
		{unix.ENOSPC, unix.ENOSPC, unix.ENOSPC, "refuses"},
	} {
		o := newFake()
		s := fakeStore(t, o)
		o.errno = tt.errno
		_, err := s.Txn(t.Context(), put("a", ""))
		if !errors.Is(err, tt.write) || !errors.Is(err, tt.errno) || !strings.Contains(err.Error(), tt.text) || tt.write != state.ErrUnknown && errors.Is(err, state.ErrUnknown) {
			t.Errorf("transaction, errno %d: %v", tt.errno, err)
		}
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, tt.read) || errors.Is(err, state.ErrUnknown) {
			t.Errorf("get, errno %d: %v", tt.errno, err)
		}
	}
}

// TestGone: an object that lost its counter is not initialized again.
func TestGone(t *testing.T) {
	o := newFake()
	s := fakeStore(t, o)
	delete(o.keys, counter)
	if _, err := s.Txn(t.Context(), put("a", "")); !errors.Is(err, errGone) {
		t.Errorf("transaction: %v", err)
	}
	if _, err := s.Get(t.Context(), ""); !errors.Is(err, errGone) {
		t.Errorf("get: %v", err)
	}
}

// TestSilence: calls return when their context ends or the store is closed, while the cluster does not answer.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFake()
		s := fakeStore(t, o)
		hold := make(chan struct{})
		o.hold = hold
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Txn(ctx, put("a", ""))
		if !errors.Is(err, state.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("transaction: %v", err)
		}
		if _, err := s.Txn(ctx, put("a", "")); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("one that was not begun: %v", err)
		}
		if _, err := s.Get(ctx, ""); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("get: %v", err)
		}
		errs := make(chan error, 4)
		go func() { _, err := s.Txn(t.Context(), put("a", "")); errs <- err }()
		synctest.Wait()
		go func() { _, err := s.Txn(t.Context(), put("b", "")); errs <- err }() // waits for its turn
		synctest.Wait()
		if err := s.Close(); err != nil || o.closed != 0 {
			t.Errorf("close: %v; closed %d times under a call", err, o.closed)
		}
		unknown, unavailable := <-errs, <-errs
		if errors.Is(unavailable, state.ErrUnknown) {
			unknown, unavailable = unavailable, unknown
		}
		if !errors.Is(unknown, state.ErrUnknown) || !errors.Is(unavailable, state.ErrUnavailable) {
			t.Errorf("under way as it is closed: %v; %v", unknown, unavailable)
		}
		close(hold)
		synctest.Wait()
		if err := s.Close(); err != nil || o.closed != 1 {
			t.Errorf("closed %d times: %v", o.closed, err)
		}
		if _, err := s.Get(t.Context(), ""); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("get of a closed store: %v", err)
		}
		if err := s.Watch(t.Context(), "", nil); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("watch of a closed store: %v", err)
		}
	})
}

// TestWatch: changes are noticed within a second, even if their message or their watch is lost.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFake()
		o.watchE = unix.ETIMEDOUT
		s, other := fakeStore(t, o), fakeStore(t, o)
		calls := 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Watch(ctx, "a/", func() { calls++ }) }()
		expect := func(when string, after time.Duration, least, most int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if calls < least || calls > most {
				t.Errorf("%s: %d calls, want %d to %d", when, calls, least, most)
			}
			calls = 0
		}
		expect("at the beginning", 0, 1, 2)
		o.set(func() { o.watchE = nil })
		expect("once there is a watch", 2*time.Second, 1, 4)
		done(t, other, put("a/1", ""))
		expect("a change", time.Millisecond, 1, 1)
		done(t, other, put("b/1", ""))
		expect("a change elsewhere", 3*time.Second, 0, 0)
		done(t, other, state.Txn{If: []state.Compare{{Key: "none"}}})
		expect("one that only compares", 3*time.Second, 0, 0)
		o.set(func() { o.mute = true })
		done(t, other, put("a/1", ""))
		expect("a message that is lost", time.Second, 1, 1)
		o.set(func() { o.mute = false })
		o.lose()
		done(t, other, put("a/1", ""))
		expect("a watch that is lost", time.Second, 1, 2)
		o.set(func() { o.keys[counter] = bytesOf(2) })
		expect("an older copy of the pool", time.Second, 1, 1)
		o.set(func() { o.errno = unix.ETIMEDOUT })
		expect("a cluster that does not answer", time.Minute, 0, 0)
		o.set(func() { o.errno = 0 })
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("watch: %v", err)
		}
		go func() { ended <- s.Watch(t.Context(), "", func() {}) }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("watch of a store that is closed: %v", err)
		}
		if err := other.Close(); err != nil || len(o.watches) != 0 {
			t.Errorf("%d watches are left, %v", len(o.watches), err)
		}
	})
}

func TestMessages(t *testing.T) {
	long := state.Txn{Then: []state.Op{{Key: strings.Repeat("k", 500)}}}
	for len(long.Then) < 10 {
		long.Then = append(long.Then, long.Then[0])
	}
	for _, tt := range []struct {
		message string
		want    message
	}{
		{messageOf(&state.Txn{Then: []state.Op{{Key: "a"}, {Key: ""}}}, 7), message{revision: 7, keys: []string{"a", ""}}},
		{messageOf(&long, 7), message{revision: 7, all: true}},
		{messageOf(&state.Txn{}, 7), message{revision: 7, keys: []string{""}}},
		{"", message{all: true}},
		{"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x05abc", message{all: true}},
	} {
		if got := parseMessage([]byte(tt.message)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %+v, want %+v", tt.message, got, tt.want)
		}
	}
	var p progress
	for _, r := range []state.Revision{1, 3, 2, 5} {
		p.note(r)
	}
	if p.seen != 3 || !p.missed(5) || p.missed(5) {
		t.Errorf("%+v", p)
	}
}
