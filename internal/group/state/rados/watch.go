package rados

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// maxMessage is the maximum size of a message in bytes; a message that would be longer names no keys.
const maxMessage = 4 << 10

// A watcher is one call of Watch.
type watcher struct {
	prefix string
	signal chan struct{} // has room for one
}

func (w *watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // it is already signaled
	}
}

// Watch implements [state.Store].
func (s *Store) Watch(ctx context.Context, prefix string, changed func()) error {
	w := &watcher{prefix: prefix, signal: make(chan struct{}, 1)}
	if !s.join(w) {
		return ofRead(notSent{errClosed})
	}
	defer s.leave(w)
	changed()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return ofRead(notSent{errClosed})
		case <-w.signal:
			changed()
		}
	}
}

// join adds a watcher. The first one starts the goroutine that follows the object.
func (s *Store) join(w *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.watchers[w] = true
	if !s.follows {
		s.follows = true
		s.calls.Add(1)
		go s.follow() // ends when the store is closed
	}
	return true
}

func (s *Store) leave(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// report wakes the watchers of the message's keys.
func (s *Store) report(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		if m.under(w.prefix) {
			w.wake()
		}
	}
}

// everything is a message for all watchers.
var everything = message{all: true}

// follow watches the object, and again whenever a watch is lost.
func (s *Store) follow() {
	defer s.calls.Done()
	var p progress
	for !s.isClosed() {
		w, err := s.object.watch()
		s.report(everything)
		if err != nil {
			s.pause()
			continue
		}
		if s.watches(w) {
			s.listen(w, &p)
			s.watches(nil)
		}
		w.close()
	}
}

func (s *Store) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *Store) pause() {
	timer := time.NewTimer(s.pollTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
	}
}

// watches sets the watch that Close must wake, and reports whether the store is open.
func (s *Store) watches(w watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = w
	return !s.closed
}

// listen receives messages until the watch is lost or the store is closed.
func (s *Store) listen(w watch, p *progress) {
	polled := time.Now()
	for !s.isClosed() {
		messages, err := w.next(max(0, s.pollTime-time.Since(polled)))
		for _, b := range messages {
			m := parseMessage(b)
			p.note(m.revision)
			s.hint.Store(uint64(m.revision))
			s.report(m)
		}
		if err != nil {
			return
		}
		if time.Since(polled) >= s.pollTime {
			s.poll(p)
			polled = time.Now()
		}
	}
}

// poll reads the counter, and wakes all watchers if there were changes without messages.
func (s *Store) poll(p *progress) {
	named, _, err := s.object.read([]string{counter})
	if err != nil {
		return
	}
	now := revisionIn(named, counter)
	s.hint.Store(uint64(now))
	if p.missed(now) {
		s.report(everything)
	}
}

// A progress records for which revisions there were messages.
type progress struct {
	seen  state.Revision          // of all revisions up to this one, or they were reported otherwise
	ahead map[state.Revision]bool // and of these
}

func (p *progress) note(r state.Revision) {
	if r <= p.seen || len(p.ahead) > 1000 {
		return
	}
	if p.ahead == nil {
		p.ahead = make(map[state.Revision]bool)
	}
	p.ahead[r] = true
	for p.ahead[p.seen+1] {
		delete(p.ahead, p.seen+1)
		p.seen++
	}
}

// missed reports whether a revision up to the counter had no message, or whether the counter was set back, for example
// because a copy of the pool was restored. It records them as reported.
func (p *progress) missed(counter state.Revision) bool {
	if counter == p.seen {
		return false
	}
	p.seen, p.ahead = counter, nil
	return true
}

// A message names the keys that a transaction has changed.
type message struct {
	revision state.Revision
	keys     []string
	all      bool // keys are not named
}

// messageOf returns the message for a transaction. If the transaction changed nothing, the message names an empty key,
// which has no watcher: a message without keys is for all watchers.
func messageOf(t *state.Txn, r state.Revision) string {
	b := bytesOf(r)
	if len(t.Then) == 0 {
		return string(binary.BigEndian.AppendUint16(b, 0))
	}
	for _, o := range t.Then {
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Key)))
		b = append(b, o.Key...)
	}
	if len(b) > maxMessage {
		b = b[:8]
	}
	return string(b)
}

// parseMessage treats a message that it does not understand as a change of all keys.
func parseMessage(b []byte) message {
	m := message{revision: revisionOf(b)}
	for b = b[min(8, len(b)):]; len(b) >= 2; {
		n := int(binary.BigEndian.Uint16(b))
		if b = b[2:]; n > len(b) {
			return message{all: true}
		}
		m.keys = append(m.keys, string(b[:n]))
		b = b[n:]
	}
	m.all = len(m.keys) == 0
	return m
}

// under reports whether one of the keys has a prefix.
func (m *message) under(prefix string) bool {
	if m.all {
		return true
	}
	for _, k := range m.keys {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}
