package simulated

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Store is simulated. Its zero value is not one: see [New].
type Store struct {
	rng      *rand.Rand
	events   []event // the next one last
	seq      uint64
	calls    Call
	down     bool
	clients  []Link // by client
	watches  []*call
	revision state.Revision
	entries  map[string]state.Entry
	history  []Step
}

// A Client is one of those that the store has.
type Client int

// A Step is a transaction that was carried out, or whose comparisons did not hold.
type Step struct {
	At     time.Time
	Client Client
	Call   Call
	Txn    state.Txn
	Result state.Result
}

// New returns a store that draws from rng.
func New(rng *rand.Rand) *Store { return &Store{rng: rng, entries: map[string]state.Entry{}} }

// Join adds a client.
func (s *Store) Join() Client {
	s.clients = append(s.clients, Link{})
	return Client(len(s.clients) - 1)
}

// Leave is the end of a client, which hears nothing any more.
func (s *Store) Leave(c Client) {
	s.watches = slices.DeleteFunc(s.watches, func(w *call) bool { return w.client == c })
	for _, e := range s.events {
		if e.call.client == c {
			e.call.over = true
		}
	}
}

// SetLink changes the way between a client and the store, for what has not arrived yet.
func (s *Store) SetLink(c Client, l Link) { s.clients[c] = l }

// SetDown begins or ends an outage, in which the store has its state and hears nobody. Requests
// that arrive are lost, but for those that are late (see [Link]).
func (s *Store) SetDown(down bool) { s.down = down }

// Peek is what the store has under a prefix.
func (s *Store) Peek(prefix string) state.Snapshot {
	snap := state.Snapshot{Revision: s.revision}
	for key, e := range s.entries {
		if strings.HasPrefix(key, prefix) {
			e.Value = bytes.Clone(e.Value)
			snap.Entries = append(snap.Entries, e)
		}
	}
	slices.SortFunc(snap.Entries, func(a, b state.Entry) int { return cmp.Compare(a.Key, b.Key) })
	return snap
}

// A Copy is what a store had at some time.
type Copy struct {
	revision state.Revision
	entries  map[string]state.Entry
}

// Copy returns what the store has.
func (s *Store) Copy() Copy { return Copy{s.revision, maps.Clone(s.entries)} }

// Restore has the store lose what has changed since a copy was made, as an administrator who restores one does.
func (s *Store) Restore(c Copy) { s.revision, s.entries = c.revision, maps.Clone(c.entries) }

// Pass is a step of another user of the store, which changes nothing of this one.
func (s *Store) Pass() { s.revision++ }

// History is all transactions that have arrived, in order. Callers must not change it.
func (s *Store) History() []Step { return s.history }

// arrive carries out a request that reaches the store, and sends the reply.
func (s *Store) arrive(now time.Time, c *call) {
	link := s.clients[c.client]
	if s.down || link.CutRequests || s.chance(link.LoseRequest) {
		s.lost(now, c, link)
		return
	}
	var r Reply
	if c.verb == get {
		r.Snapshot = s.Peek(c.prefix)
	} else {
		r.Result = s.execute(now, c)
	}
	if link.CutReplies || s.chance(link.LoseReply) {
		s.broken(now, c, failure(c))
		return
	}
	s.schedule(now.Add(s.delay(link)), replied, c, r)
}

// lost has a request arrive late, or not at all. Of some that never arrive the client knows it.
func (s *Store) lost(now time.Time, c *call, link Link) {
	switch {
	case s.chance(link.Late):
		s.schedule(s.late(now, c), arrives, c, Reply{})
		s.broken(now, c, failure(c))
	case s.chance(0.5):
		s.broken(now, c, failure(c))
	default:
		s.broken(now, c, state.ErrUnavailable)
	}
}

// late is a time after the caller has given up.
func (s *Store) late(now time.Time, c *call) time.Time {
	after := 2*mostDelay + time.Duration(s.rng.ExpFloat64()*float64(meanLate))
	return now.Add(max(c.limit.Sub(now), 0) + after)
}

// broken has the client notice now and then that the connection is lost, before its time is up.
func (s *Store) broken(now time.Time, c *call, err error) {
	if rest := c.limit.Sub(now); rest > 0 && s.chance(0.5) {
		s.schedule(now.Add(s.between(0, rest)), gives, c, Reply{Err: err})
	}
}

// failure is the error of a call of which no reply is heard.
func failure(c *call) error {
	if c.verb == txn {
		return state.ErrUnknown
	}
	return state.ErrUnavailable
}

// execute is the one place where the state changes.
func (s *Store) execute(now time.Time, c *call) state.Result {
	r := state.Result{Done: s.holds(c.txn.If), Revision: s.revision}
	if r.Done {
		r.Revision = s.apply(now, c.txn.Then)
	}
	s.history = append(s.history, Step{At: now, Client: c.client, Call: c.id, Txn: c.txn, Result: r})
	return r
}

func (s *Store) holds(all []state.Compare) bool {
	return !slices.ContainsFunc(all, func(c state.Compare) bool { return s.entries[c.Key].Revision != c.Revision })
}

// apply carries out operations. Those that change nothing are no step.
func (s *Store) apply(now time.Time, ops []state.Op) state.Revision {
	next, changed := s.revision+1, []string(nil)
	for _, o := range ops {
		_, present := s.entries[o.Key]
		switch {
		case !o.Delete:
			s.entries[o.Key] = state.Entry{Key: o.Key, Value: o.Value, Revision: next}
		case present:
			delete(s.entries, o.Key)
		default:
			continue
		}
		changed = append(changed, o.Key)
	}
	if len(changed) > 0 {
		s.revision = next
		s.changed(now, changed)
	}
	return s.revision
}
