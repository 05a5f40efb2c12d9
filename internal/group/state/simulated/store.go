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

// A Store is a simulated store. Use [New]; the zero value is not usable.
type Store struct {
	rng      *rand.Rand
	events   []event // the next one is the last
	seq      uint64
	calls    Call
	down     bool
	clients  []Link // by client
	watches  []*call
	revision state.Revision
	entries  map[string]state.Entry
	history  []Step
}

// A Client is a client of the store.
type Client int

// A Step is a transaction that was executed, or whose comparisons did not hold.
type Step struct {
	At     time.Time
	Client Client
	Call   Call
	Txn    state.Txn
	Result state.Result
}

// New returns a store that uses rng.
func New(rng *rand.Rand) *Store { return &Store{rng: rng, entries: map[string]state.Entry{}} }

// Join adds a client.
func (s *Store) Join() Client {
	s.clients = append(s.clients, Link{})
	return Client(len(s.clients) - 1)
}

// Leave removes a client, which gets no reply any more.
func (s *Store) Leave(c Client) {
	s.watches = slices.DeleteFunc(s.watches, func(w *call) bool { return w.client == c })
	for _, e := range s.events {
		if e.call.client == c {
			e.call.over = true
		}
	}
}

// SetLink changes the connection between a client and the store, also for messages that have not arrived yet.
func (s *Store) SetLink(c Client, l Link) { s.clients[c] = l }

// SetDown begins or ends an outage. During an outage the store keeps its state, and arriving requests are lost, except
// for late ones (see [Link]).
func (s *Store) SetDown(down bool) { s.down = down }

// Peek returns the entries under a prefix.
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

// A Copy is the content of a store at some time.
type Copy struct {
	revision state.Revision
	entries  map[string]state.Entry
}

// Copy returns the present content.
func (s *Store) Copy() Copy { return Copy{s.revision, maps.Clone(s.entries)} }

// Restore restores a copy, so that later changes are lost.
func (s *Store) Restore(c Copy) { s.revision, s.entries = c.revision, maps.Clone(c.entries) }

// Pass executes a transaction of another user of the store, which changes nothing here except the revision.
func (s *Store) Pass() { s.revision++ }

// History returns all transactions that have arrived, in order. Do not modify it.
func (s *Store) History() []Step { return s.history }

// arrive executes a request that reaches the store, and sends the reply.
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

// lost makes a request arrive late, or not at all. For some that never arrive, the client gets an error.
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

// late returns a time after the caller has given up.
func (s *Store) late(now time.Time, c *call) time.Time {
	after := 2*mostDelay + time.Duration(s.rng.ExpFloat64()*float64(meanLate))
	return now.Add(max(c.limit.Sub(now), 0) + after)
}

// broken makes the client notice occasionally, before its time limit, that the connection is lost.
func (s *Store) broken(now time.Time, c *call, err error) {
	if rest := c.limit.Sub(now); rest > 0 && s.chance(0.5) {
		s.schedule(now.Add(s.between(0, rest)), gives, c, Reply{Err: err})
	}
}

// failure returns the error of a call without a reply.
func failure(c *call) error {
	if c.verb == txn {
		return state.ErrUnknown
	}
	return state.ErrUnavailable
}

// execute is the only place where the state changes.
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

// apply executes operations. If they change nothing the revision stays the same.
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
