package group

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Session is a time during which there always was a gateway. Its end is for the group what a power loss is for a
// machine. It is named after the incarnation with which it began.
type Session struct {
	Version int         `json:"version"`
	ID      Incarnation `json:"id"`
}

// SessionKey is the key of the present Session.
const SessionKey = GroupPrefix + "session"

// session returns the present session, or "" if there was none. If its key was removed or is damaged, the registrations
// of gateways that have not ended contain it: so it has not ended either.
func (v *view) session() Incarnation {
	if s := v.sessions.find(SessionKey); s != nil && s.err == nil {
		return s.value.ID
	}
	for i := range v.members {
		if m := &v.members[i]; m.err == nil && !m.value.Ended && m.value.Session != "" {
			return m.value.Session
		}
	}
	return ""
}

// continued returns the operation that writes a session again, or writes a new one.
func (v *view) continued(id Incarnation) state.Op {
	return put(SessionKey, encode(Session{version, id}, v.sessions.raw(SessionKey)))
}

// inherit keeps a new incarnation of this process in the session of the previous one, because the process never ended.
// It writes the session again, so that no other gateway ends it at the same time.
func (r *registration) inherit() Incarnation {
	m, now := r.view.member(r.cfg.Name), r.view.session()
	if m == nil || now == "" || m.value.Session != now || !slices.Contains(r.past, m.value.Incarnation) {
		return ""
	}
	r.txn.If = append(r.txn.If, r.view.sessions.is(SessionKey))
	r.txn.Then = append(r.txn.Then, r.view.continued(now))
	return now
}

// A sessionFinder is the part of an engine that finds the session of a gateway that does not know it yet.
type sessionFinder struct{ *Engine }

// settle finds the session of this gateway: the session of another gateway that is seen to be alive, or a new one if all
// gateways of the last session have ended. Until it knows one or the other it waits. A gateway that is fenced before
// another gateway of its session has seen this one alive counts as ended, although its process may continue.
//
// Each of these changes writes the session, even if it does not change, so that one of two concurrent gateways sees
// what the other has done.
func (e sessionFinder) settle() *state.Txn {
	own := e.own()
	if own.value.Session != "" {
		return nil
	}
	id, open := e.view.session(), false
	t := &state.Txn{If: []state.Compare{{Key: own.Key, Revision: own.Revision}, e.view.sessions.is(SessionKey)}}
	for i := range e.view.members {
		m := &e.view.members[i]
		if m == own || m.err == nil && (m.value.Ended || m.value.Session == "" || m.value.Session != id) {
			continue
		}
		open = true
		if m.err == nil && e.observed[m.value.Incarnation].beaten {
			t.If = append(t.If, state.Compare{Key: m.Key, Revision: m.Revision})
			return e.enter(t, own, id)
		}
	}
	if open {
		return nil
	}
	return e.enter(t, own, e.inc)
}

// awaited reports whether a leaving gateway must stay for a while because another one has come that does not know its
// session yet. If both were present at one time the session does not end.
func (e sessionFinder) awaited() bool {
	own, until := e.own(), e.leaving+e.cfg.Term
	if own.value.Session == "" || e.now >= until {
		return false
	}
	for i := range e.view.members {
		if m := &e.view.members[i]; m.value.Session == "" && e.alive(m) && m != own {
			e.at(until)
			return true
		}
	}
	return false
}

// enter completes a transaction by which this gateway becomes part of a session.
func (e sessionFinder) enter(t *state.Txn, own *entry[Member], id Incarnation) *state.Txn {
	m := own.value
	m.Session = id
	t.Then = append(t.Then, e.view.continued(id), put(own.Key, encode(m, own.Value)))
	return t
}
