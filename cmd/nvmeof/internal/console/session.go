package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
)

// Bounds of sessions.
const (
	maxSessions   = 256
	maxOfOneToken = 16
	idleTime      = 30 * time.Minute // after which a session ends that nobody uses
	lifeTime      = 12 * time.Hour   // after which every session ends
)

// A session is that a token was entered.
type session struct {
	token       token.Hash
	begun, used time.Time
	done, wrong string // what came of the last action, until a page has shown it
}

// sessions are those of all tokens, by the hash of their identifiers. The zero value has none.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

// begin makes a session with a new identifier.
func (s *sessions) begin(of token.Hash, now time.Time) (id string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it does not fail
	id = base64.RawURLEncoding.EncodeToString(secret[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]*session{}
	}
	s.makeRoom(of, now)
	s.all[sha256.Sum256([]byte(id))] = &session{token: of, begun: now, used: now}
	return id
}

// makeRoom removes sessions that have ended, and those that were used longest ago where there are too
// many: of this token, so that one does not end those of others, or else of all. Called with mu held.
func (s *sessions) makeRoom(of token.Hash, now time.Time) {
	var own, any [sha256.Size]byte
	count := 0
	for id, x := range s.all {
		if x.over(now) {
			delete(s.all, id)
			continue
		}
		if x.token == of {
			if count++; count == 1 || x.used.Before(s.all[own].used) {
				own = id
			}
		}
		if s.all[any] == nil || x.used.Before(s.all[any].used) {
			any = id
		}
	}
	switch {
	case count >= maxOfOneToken:
		delete(s.all, own)
	case len(s.all) >= maxSessions:
		delete(s.all, any)
	}
}

func (x *session) over(now time.Time) bool {
	return now.Sub(x.used) > idleTime || now.Sub(x.begun) > lifeTime
}

// use is the token of a session, which is used now.
func (s *sessions) use(id string, now time.Time) (of token.Hash, ok bool) {
	key := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all[key]
	if x == nil {
		return of, false
	}
	if x.over(now) {
		delete(s.all, key)
		return of, false
	}
	x.used = now
	return x.token, true
}

// say keeps what came of an action for the next page.
func (s *sessions) say(id, done, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.all[sha256.Sum256([]byte(id))]; x != nil {
		x.done, x.wrong = done, wrong
	}
}

// take is what say kept, once.
func (s *sessions) take(id string) (done, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all[sha256.Sum256([]byte(id))]
	if x == nil {
		return "", ""
	}
	done, wrong = x.done, x.wrong
	x.done, x.wrong = "", ""
	return done, wrong
}

// end ends a session, if there is one.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}
