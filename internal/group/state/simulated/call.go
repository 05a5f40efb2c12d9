package simulated

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// retry is the interval at which a notice that cannot reach the client is sent again.
const retry = 500 * time.Millisecond

// Get requests the entries whose keys have the prefix. The caller gives up after limit.
func (s *Store) Get(now time.Time, c Client, prefix string, limit time.Duration) Call {
	return s.submit(now, &call{client: c, verb: get, prefix: prefix}, limit)
}

// Txn sends a transaction. The caller gives up after limit. The reply to an invalid transaction is the error of its
// Check.
func (s *Store) Txn(now time.Time, c Client, t state.Txn, limit time.Duration) Call {
	if err := t.Check(); err != nil {
		refused := s.numbered(&call{client: c, verb: txn})
		s.schedule(now, replied, refused, Reply{Err: err})
		return refused.id
	}
	return s.submit(now, &call{client: c, verb: txn, txn: clone(t)}, limit)
}

// Watch notifies the client of changes under the prefix until it cancels the call or leaves.
func (s *Store) Watch(now time.Time, c Client, prefix string) Call {
	w := s.numbered(&call{client: c, verb: watch, prefix: prefix, noted: true})
	s.watches = append(s.watches, w)
	s.schedule(now, notified, w, Reply{Changed: true})
	return w.id
}

// Cancel makes the caller give up now; it gets no reply any more. What it has sent may still be executed.
func (s *Store) Cancel(id Call) {
	s.watches = slices.DeleteFunc(s.watches, func(w *call) bool { return w.id == id })
	for _, e := range s.events {
		if e.call.id == id {
			e.call.over = true
		}
	}
}

func (s *Store) numbered(c *call) *call {
	s.calls++
	c.id = s.calls
	return c
}

func (s *Store) submit(now time.Time, c *call, limit time.Duration) Call {
	s.numbered(c)
	c.limit = now.Add(limit)
	link := s.clients[c.client]
	at := now.Add(s.delay(link))
	if s.chance(link.Delay) {
		at = s.late(now, c)
	}
	s.schedule(at, arrives, c, Reply{})
	s.schedule(c.limit, gives, c, Reply{Err: failure(c)})
	return c.id
}

// changed sends notices of changed keys to the watches. A pending notice covers later changes.
func (s *Store) changed(now time.Time, keys []string) {
	for _, w := range s.watches {
		if w.noted || !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, w.prefix) }) {
			continue
		}
		w.noted = true
		s.schedule(now.Add(s.noticeDelay(s.clients[w.client])), notified, w, Reply{Changed: true})
	}
}

// notice reports whether a client gets a notice of change now. A lost notice is sent again. The first notice of a watch
// does not need the store.
func (s *Store) notice(now time.Time, w *call) (heard bool) {
	if w.over {
		return false
	}
	link := s.clients[w.client]
	if w.begun && (s.down || link.CutRequests || link.CutReplies) {
		s.schedule(now.Add(s.between(retry/2, retry)), notified, w, Reply{Changed: true})
		return false
	}
	w.begun, w.noted = true, false
	return true
}

// clone copies what the caller may modify.
func clone(t state.Txn) state.Txn {
	t = state.Txn{If: slices.Clone(t.If), Then: slices.Clone(t.Then)}
	for i := range t.Then {
		t.Then[i].Value = bytes.Clone(t.Then[i].Value)
	}
	return t
}
