package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
)

// Limits of sessions.
const (
	maxSessions   = 256
	maxOfOneToken = 16
	idleTime      = 30 * time.Minute // an unused session ends after this time
	lifeTime      = 12 * time.Hour   // every session ends after this time
)

// A session exists after a token was entered.
type session struct {
	token       token.Hash
	begun, used time.Time
	done, wrong string // result of the last action, until a page has shown it
}

// sessions holds the sessions of all tokens, by the hash of their identifiers. The zero value is empty.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

// begin creates a session with a new identifier.
func (s *sessions) begin(of token.Hash, now time.Time) (id string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
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

// makeRoom removes sessions that have ended. If there are still too many, it removes the least recently used one: of
// this token, so that a token does not end the sessions of others, or else of all. Called with mu held.
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

// use returns the token of a session, and marks the session as used.
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

// say stores the result of an action for the next page.
func (s *sessions) say(id, done, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.all[sha256.Sum256([]byte(id))]; x != nil {
		x.done, x.wrong = done, wrong
	}
}

// take returns and removes the result stored by say.
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

// end ends a session, if it exists.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}
