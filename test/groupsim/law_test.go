package groupsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// law is the reservation of a service's namespace. Once a host holds it, only registrants may write.
type law struct {
	loaded   bool // the previous owner's record has been read
	changing bool
	record   registry
	entry    state.Entry
	waiting  func() // answers a command that waits for writes to end
}

func lawKey(id group.ID) string { return group.RecordKey(fmt.Sprintf("%03d", id)) }

// A registry is the stored record of a service's reservation.
type registry struct {
	Type        int
	Holder      string
	Registrants []string
}

func hostID(host int) string { return fmt.Sprintf("%032x", host+1) }

// read reads the record. Until then no host can write.
func (l *law) read(s *service, then func(error)) {
	l.loaded = false
	key := lawKey(s.id)
	s.g.calls[s.g.w.store.Get(s.g.w.wall(), s.g.client, key, callLimit)] = func(r simulated.Reply) {
		if r.Err != nil {
			then(r.Err)
			return
		}
		l.entry, l.record = state.Entry{Key: key}, registry{}
		if len(r.Snapshot.Entries) > 0 {
			l.entry = r.Snapshot.Entries[0]
			record, err := group.ReadRecord(l.entry)
			if err == nil {
				err = json.Unmarshal(record.State, &l.record)
			}
			if err != nil {
				then(err)
				return
			}
		}
		l.loaded = true
		then(nil)
	}
}

func (l *law) registered(host int) bool {
	return slices.ContainsFunc(l.record.Registrants, func(r string) bool { return r == hostID(host) })
}

func (l *law) allows(host int) bool { return l.record.Type == 0 || l.registered(host) }

// A filing is a reservation command of a host: to register, or to preempt another host and abort its commands.
type filing struct {
	group  group.ID
	host   int
	victim int // -1 for a registration
	live   func() bool
	reply  func(error)
}

func (f *filing) String() string {
	if f.victim < 0 {
		return fmt.Sprintf("host %d registers for group %d", f.host, f.group)
	}
	return fmt.Sprintf("host %d preempts host %d for group %d", f.host, f.victim, f.group)
}

// next returns the record after a command.
func (l *law) next(f *filing) registry {
	next := l.record
	next.Registrants = slices.Clone(next.Registrants)
	if f.victim < 0 {
		if !l.registered(f.host) {
			next.Registrants = append(next.Registrants, hostID(f.host))
		}
		return next
	}
	next.Type, next.Holder = 3, hostID(f.host)
	next.Registrants = slices.DeleteFunc(next.Registrants, func(r string) bool { return r == hostID(f.victim) })
	return next
}

// file executes a command: compute the record, compare and swap it in the owner's epoch, publish it, wait for writes
// that have to end, and answer.
func (g *gateway) file(f *filing) {
	s := g.services[f.group]
	switch {
	case !f.live():
		return
	case s == nil || !s.valid() || !s.law.loaded || s.law.changing:
		f.reply(errInaccessible)
		return
	case f.victim >= 0 && !s.law.registered(f.host):
		s.refuse(func() bool { return !s.law.registered(f.host) }, f.reply)
		return
	}
	l := &s.law
	hold, ok := g.engine.Holds()[f.group]
	if g.w.wrong == ignoreEpoch {
		hold, ok = group.Hold{Epoch: s.epoch}, true
	}
	if !ok || hold.Epoch != s.epoch {
		f.reply(errInaccessible)
		return
	}
	next := l.next(f)
	text, err := json.Marshal(next)
	if err != nil {
		panic(err) // cannot fail for numbers and strings
	}
	t, record, err := hold.Change(l.entry, text)
	if err != nil {
		g.w.violation("%v", err)
		return
	}
	l.changing = true
	g.commit(t, func(r simulated.Reply) { s.filed(f, t, next, record.Revision, r) })
}

// refuse answers a command with a conflict after the store has confirmed that this gateway is still the owner.
// Otherwise another gateway may have changed the reservation since.
func (s *service) refuse(holds func() bool, reply func(error)) {
	if s.g.w.wrong == staleConflict {
		reply(errConflict)
		return
	}
	hold, ok := s.g.engine.Holds()[s.id]
	if !ok {
		reply(errInaccessible)
		return
	}
	s.g.commit(state.Txn{If: hold.Guard}, func(r simulated.Reply) {
		if r.Result.Done && s.current() && s.law.loaded && !s.law.changing && holds() {
			reply(errConflict)
		} else {
			reply(errInaccessible)
		}
	})
}

func (s *service) filed(f *filing, t state.Txn, next registry, revision uint64, r simulated.Reply) {
	l := &s.law
	if r.Err != nil || !r.Result.Done { // it may have been executed, or may still be, or this gateway is not the owner
		s.reread()
		f.reply(errUnknown)
		return
	}
	l.record, l.entry = next, state.Entry{Key: l.entry.Key, Value: t.Then[0].Value, Revision: r.Result.Revision}
	s.g.w.note("%s (%s): %v, revision %d", s.g.name, s.g.inc, f, revision)
	l.waiting = func() {
		l.changing = false
		if s.current() {
			f.reply(nil)
		}
	}
	l.settle(s)
}

func (s *service) reread() {
	s.law.read(s, func(err error) {
		if err != nil && s.current() {
			s.g.later(200*time.Millisecond, s.reread)
			return
		}
		s.law.changing = false
	})
}

// settle answers a waiting command once no write of a host without the right to write is in progress.
func (l *law) settle(s *service) {
	if l.waiting == nil {
		return
	}
	for host, n := range s.inflight {
		if n > 0 && !l.allows(host) && s.g.w.wrong != deafAbort {
			return
		}
	}
	answer := l.waiting
	l.waiting = nil
	answer()
}
