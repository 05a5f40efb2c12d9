package group

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Session is the time in which there always was a gateway: its end is for the group what a power
// loss is for a machine. It is named after the incarnation with which it has begun.
type Session struct {
	Version int         `json:"version"`
	ID      Incarnation `json:"id"`
}

// SessionKey is that of the present Session.
const SessionKey = GroupPrefix + "session"

// session is the present one; "": there was none. Where somebody has removed its key, or it is damaged, gateways that have not
// ended know it: it has not ended either.
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

// continued puts a session once more, or another one.
func (v *view) continued(id Incarnation) state.Op {
	return put(SessionKey, encode(Session{version, id}, v.sessions.raw(SessionKey)))
}

// inherit has a new incarnation of this process stay in the session of the one before: the process was
// there all the time. The session is put again, so that nobody ends it in the same moment.
func (r *registration) inherit() Incarnation {
	m, now := r.view.member(r.cfg.Name), r.view.session()
	if m == nil || now == "" || m.value.Session != now || !slices.Contains(r.past, m.value.Incarnation) {
		return ""
	}
	r.txn.If = append(r.txn.If, r.view.sessions.is(SessionKey))
	r.txn.Then = append(r.txn.Then, r.view.continued(now))
	return now
}

// A newcomer is a gateway that does not know yet which session it belongs to.
type newcomer struct{ *Engine }

// settle finds the session of a gateway that has come: that of another one which is seen to be alive,
// and a new one if all that were in the last one have ended. Until one of both is known it waits. A
// gateway that is fenced before another one of its session has seen this one alive counts as ended,
// although its process may go on.
//
// Each of these changes puts the session, also where it stays the same, so that of two gateways one sees
// what the other has done.
func (e newcomer) settle() *state.Txn {
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
		if m.err == nil && e.pulses[m.value.Incarnation].beaten {
			t.If = append(t.If, state.Compare{Key: m.Key, Revision: m.Revision})
			return e.enter(t, own, id)
		}
	}
	if open {
		return nil
	}
	return e.enter(t, own, e.inc)
}

// awaited reports whether a gateway that leaves has to stay for a while, since another one has come that
// does not know its session yet: when both were there at one time it does not end.
func (e newcomer) awaited() bool {
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

// enter completes a transaction with which this gateway belongs to a session.
func (e newcomer) enter(t *state.Txn, own *entry[Member], id Incarnation) *state.Txn {
	m := own.value
	m.Session = id
	t.Then = append(t.Then, e.view.continued(id), put(own.Key, encode(m, own.Value)))
	return t
}
