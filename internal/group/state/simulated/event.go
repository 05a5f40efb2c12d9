package simulated

import (
	"cmp"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Call is the number of a client's call.
type Call uint64

// A Reply is what a client receives: the outcome of a Get or Txn, once, or a notice of change of a Watch.
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

// A call is the state of a client's call.
type call struct {
	id     Call
	client Client
	verb   verb
	prefix string
	txn    state.Txn
	limit  time.Time // when the caller gives up
	over   bool      // the client gets no reply any more
	begun  bool      // of a watch: the client has had a notice
	noted  bool      // of a watch: a notice is on its way to the client
}

type kind int

const (
	arrives  kind = iota // a request arrives at the store
	replied              // the outcome arrives at the client
	gives                // the client gives up
	notified             // a notice arrives at the client
)

// An event happens at its time. Events of the same time happen in the order in which they were scheduled.
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

// schedule adds an event. The next event is the last one of the slice.
func (s *Store) schedule(at time.Time, k kind, c *call, r Reply) {
	s.seq++
	e := event{at: at, seq: s.seq, kind: k, call: c, reply: r}
	n, _ := slices.BinarySearchFunc(s.events, e, func(o, e event) int { return e.compare(o) })
	s.events = slices.Insert(s.events, n, e)
}

// Next returns the time of the next event, if there is one.
func (s *Store) Next() (at time.Time, ok bool) {
	if len(s.events) == 0 {
		return time.Time{}, false
	}
	return s.events[len(s.events)-1].at, true
}

// Advance executes all events until now, and returns the replies to clients, in order.
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

// happen executes an event, and returns the reply to a client, if any.
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
