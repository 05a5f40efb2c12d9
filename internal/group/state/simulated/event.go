package simulated

import (
	"cmp"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Call is the number of what a client has asked for.
type Call uint64

// A Reply is what a client hears: the outcome of a call of Get or Txn, once, or that a watch
// has seen a change.
type Reply struct {
	Call     Call
	Client   Client
	Snapshot state.Snapshot // of Get
	Result   state.Result   // of Txn
	Err      error          // of Get and Txn
	Changed  bool           // of Watch
}

type verb int

const (
	get verb = iota
	txn
	watch
)

// A call is one that a client has made.
type call struct {
	id     Call
	client Client
	verb   verb
	prefix string
	txn    state.Txn
	limit  time.Time // when the caller gives up
	over   bool      // the client hears nothing of it any more
	begun  bool      // of a watch: the client has heard of it
	noted  bool      // of a watch: a change is on its way to the client
}

type kind int

const (
	arrives  kind = iota // a request, at the store
	replied              // the outcome, at the client
	gives                // up: the client
	notified             // a watch, at the client
)

// An event happens at its time; those of one time in the order in which they were scheduled.
type event struct {
	at    time.Time
	seq   uint64
	kind  kind
	call  *call
	reply Reply
}

func (e event) compare(o event) int {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.seq, o.seq))
}

// schedule keeps the events with the next one last.
func (s *Store) schedule(at time.Time, k kind, c *call, r Reply) {
	s.seq++
	e := event{at: at, seq: s.seq, kind: k, call: c, reply: r}
	n, _ := slices.BinarySearchFunc(s.events, e, func(o, e event) int { return e.compare(o) })
	s.events = slices.Insert(s.events, n, e)
}

// Next is the time of the next event, unless there is none.
func (s *Store) Next() (at time.Time, ok bool) {
	if len(s.events) == 0 {
		return time.Time{}, false
	}
	return s.events[len(s.events)-1].at, true
}

// Advance carries out everything until now, and returns what clients hear, in order.
func (s *Store) Advance(now time.Time) []Reply {
	var replies []Reply
	for n := len(s.events) - 1; n >= 0 && !s.events[n].at.After(now); n = len(s.events) - 1 {
		e := s.events[n]
		s.events = s.events[:n]
		if r, heard := s.happen(e); heard {
			replies = append(replies, r)
		}
	}
	return replies
}

// happen carries out an event, and says what a client hears of it.
func (s *Store) happen(e event) (r Reply, heard bool) {
	switch e.kind {
	case arrives:
		s.arrive(e.at, e.call)
	case replied, gives:
		heard = !e.call.over
		e.call.over = true
	case notified:
		heard = s.notice(e.at, e.call)
	}
	e.reply.Call, e.reply.Client = e.call.id, e.call.client
	return e.reply, heard
}
