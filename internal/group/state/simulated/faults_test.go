package simulated

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/statetest"
)

const limit = time.Second

func putting(key, value string) state.Txn {
	return state.Txn{Then: []state.Op{{Key: key, Value: []byte(value)}}}
}

// A run is a store without a simulator around it.
type run struct {
	*Store
	now time.Time
}

func newRun(seed uint64) *run {
	return &run{Store: New(rand.New(rand.NewPCG(seed, 0))), now: time.Unix(0, 0)}
}

// until executes all events before a time and returns the replies.
func (r *run) until(end time.Duration) (all []Reply) {
	for at, ok := r.Next(); ok && !at.After(time.Unix(0, 0).Add(end)); at, ok = r.Next() {
		r.now = at
		all = append(all, r.Advance(at)...)
	}
	r.now = time.Unix(0, 0).Add(end)
	return all
}

// story returns the result of a seeded run with all faults.
func story(seed uint64) (heard []string, history []Step) {
	r := newRun(seed)
	clients := []Client{r.Join(), r.Join()}
	for _, c := range clients {
		r.Watch(r.now, c, "")
	}
	for n := range 200 {
		c := clients[r.rng.IntN(2)]
		switch r.rng.IntN(5) {
		case 0:
			r.Get(r.now, c, "", limit)
		case 1:
			r.SetLink(c, Link{Slow: limit, LoseRequest: 0.2, LoseReply: 0.2, Late: 0.5, Delay: 0.2, CutReplies: r.rng.IntN(3) == 0})
		case 2:
			r.SetDown(r.rng.IntN(4) == 0)
		default:
			r.Txn(r.now, c, putting(fmt.Sprint("k", n%5), fmt.Sprint(n)), limit)
		}
		for _, reply := range r.until(time.Duration(n) * 100 * time.Millisecond) {
			heard = append(heard, fmt.Sprint(r.now, reply))
		}
	}
	return heard, r.History()
}

func TestSameSeedSameStory(t *testing.T) {
	heard, history := story(1)
	again, historyAgain := story(1)
	if !reflect.DeepEqual(heard, again) || !reflect.DeepEqual(history, historyAgain) {
		t.Error("the same seed gives two stories")
	}
	if other, _ := story(2); reflect.DeepEqual(heard, other) {
		t.Error("two seeds give the same story")
	}
}

// TestFates: the possible outcomes of a transaction on each kind of link.
func TestFates(t *testing.T) {
	type fate struct{ heard, carried string }
	inTime, late, never := "in time", "late", "never"
	for name, c := range map[string]struct {
		link Link
		down bool
		want []fate
	}{
		"no fault":     {Link{}, false, []fate{{"done", inTime}}},
		"slow":         {Link{Slow: limit / 4}, false, []fate{{"done", inTime}}},
		"too slow":     {Link{Slow: 3 * limit}, false, []fate{{"done", inTime}, {"unknown", inTime}, {"unknown", late}}},
		"lost request": {Link{LoseRequest: 1}, false, []fate{{"unknown", never}, {"unavailable", never}}},
		"lost reply":   {Link{LoseReply: 1}, false, []fate{{"unknown", inTime}}},
		"delayed":      {Link{Delay: 1}, false, []fate{{"unknown", late}}},
		"cut":          {Cut(), false, []fate{{"unknown", never}, {"unavailable", never}}},
		"cut, late":    {Link{CutRequests: true, Late: 0.9}, false, []fate{{"unknown", never}, {"unavailable", never}}},
		"lost, late":   {Link{LoseRequest: 0.5, Late: 1}, false, []fate{{"done", inTime}, {"unknown", late}}},
		"cut one way":  {Link{CutReplies: true}, false, []fate{{"unknown", inTime}}},
		"outage":       {Link{}, true, []fate{{"unknown", never}, {"unavailable", never}}},
	} {
		seen := map[fate]bool{}
		for seed := range uint64(100) {
			r := newRun(seed)
			client := r.Join()
			r.SetLink(client, c.link)
			r.SetDown(c.down)
			id := r.Txn(r.now, client, putting("a", "1"), limit)
			replies := r.until(time.Minute)
			if len(replies) != 1 || replies[0].Call != id || replies[0].Client != client {
				t.Fatalf("%s: replies %v", name, replies)
			}
			f := fate{"done", never}
			if err := replies[0].Err; errors.Is(err, state.ErrUnknown) {
				f.heard = "unknown"
			} else if err != nil {
				f.heard = "unavailable"
			}
			for _, step := range r.History() {
				f.carried = inTime
				if step.At.Sub(time.Unix(0, 0)) > limit {
					f.carried = late
				}
			}
			if len(r.History()) > 1 {
				t.Errorf("%s: carried out twice", name)
			}
			seen[f] = true
		}
		want := map[fate]bool{}
		for _, f := range c.want {
			want[f] = true
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("%s: %v, want %v", name, seen, want)
		}
	}
}

// TestWatchThroughPartition: changes during a partition are noticed within a second of its end.
func TestWatchThroughPartition(t *testing.T) {
	for seed := range uint64(50) {
		r := newRun(seed)
		writer, watcher := r.Join(), r.Join()
		id := r.Watch(r.now, watcher, "a")
		if got := r.until(time.Second); len(got) != 1 || !got[0].Changed || got[0].Call != id {
			t.Fatalf("at the beginning: %v", got)
		}
		r.SetLink(watcher, Link{CutReplies: true})
		r.Txn(r.now, writer, putting("a", "1"), limit)
		r.Txn(r.now, writer, putting("b", "1"), limit)
		if got := r.until(time.Minute); len(got) != 2 {
			t.Fatalf("while it is cut off: %v", got)
		}
		r.SetLink(watcher, Link{})
		if got := r.until(time.Minute + time.Second); len(got) != 1 || got[0].Call != id {
			t.Fatalf("after the end: %v", got)
		}
	}
}

// TestGone: a client that has left or cancelled gets no reply, and what it sent is executed.
func TestGone(t *testing.T) {
	r := newRun(1)
	left, stays := r.Join(), r.Join()
	r.Watch(r.now, left, "")
	r.Txn(r.now, left, putting("a", "1"), limit)
	r.Get(r.now, left, "", limit)
	canceled := []Call{r.Watch(r.now, stays, ""), r.Txn(r.now, stays, putting("b", "1"), limit)}
	r.Leave(left)
	for _, id := range canceled {
		r.Cancel(id)
	}
	if got := r.until(time.Minute); len(got) != 0 {
		t.Errorf("heard %v", got)
	}
	if got := len(r.History()); got != 2 {
		t.Errorf("%d transactions were carried out, want 2", got)
	}
}

// TestHistories makes clients work through all faults, and checks the history.
func TestHistories(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { work(t, seed) })
	}
}

func work(t *testing.T, seed uint64) {
	var h statetest.History
	b := Share(New(rand.New(rand.NewPCG(seed, 5))))
	ctx := t.Context()
	for id := range 4 {
		conn := b.Open(limit)
		w := statetest.Worker{ID: id, Store: h.Client(id, conn), Prefix: "k/", Rand: rand.New(rand.NewPCG(seed, uint64(id)))}
		go func() {
			defer conn.Close() //nolint:errcheck // has no error
			for range 25 {
				w.Do(ctx) //nolint:errcheck // the history has it
				b.Do(func(s *Store, _ time.Time) { strike(s, conn.Client) })
			}
		}()
	}
	synctest.Wait()
	time.Sleep(5 * time.Minute)
	if err := h.Check(ctx, healthy(b), time.Minute); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// healthy returns a client of a store without faults.
func healthy(b *Shared) *Conn {
	b.Do(func(s *Store, _ time.Time) { s.SetDown(false) })
	return b.Open(limit)
}

// strike changes the faults of a client, or of the store.
func strike(s *Store, c Client) {
	switch s.rng.IntN(8) {
	case 0:
		s.SetLink(c, Link{Slow: limit, LoseRequest: 0.1, LoseReply: 0.1, Late: 0.5, Delay: 0.1})
	case 1:
		s.SetLink(c, Link{CutReplies: true})
	case 2:
		s.SetDown(true)
	case 3, 4:
		s.SetLink(c, Link{})
		s.SetDown(false)
	}
}
