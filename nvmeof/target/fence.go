package target

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
)

// A selection selects commands of I/O queues that are to be aborted.
type selection struct {
	queue   func(*queue) bool   // called in the shard of an I/O queue
	request func(*request) bool // likewise, for each request
}

// abortCommands ends the selected commands that are under way, and calls done after the last of them has ended. An
// operation that was submitted to a store cannot be withdrawn: it completes, and its command is aborted.
func abortCommands(t *Target, of selection, status capsule.Status, done func()) {
	var left atomic.Int64
	left.Store(1)
	ended := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	t.mu.Lock()
	for q := range t.queues {
		left.Add(1)
		if !q.shard.Do(func() {
			if q.executesIO() && of.queue(q) {
				q.abortSelected(of.request, status, &left, ended)
			}
			ended()
		}) {
			ended()
		}
	}
	t.mu.Unlock()
	ended()
}

// abortSelected aborts the selected commands that are under way. It counts those that end later in left; ended is
// called for each of them.
func (q *queue) abortSelected(selected func(*request) bool, s capsule.Status, left *atomic.Int64, ended func()) {
	for i := range q.requests {
		r := &q.requests[i]
		if r.stage == stageIdle || r.stage == stageAnswered || r.stage == stageHeld || !selected(r) {
			continue
		}
		if r.stop(s) != stopNow {
			r.stopped = s
			left.Add(1)
			r.whenEnded(ended)
		}
	}
}

// Expel ends the commands that a host has under way in a namespace, and returns when the last of them has ended:
// after that none of the host's writes reaches the store. It is called after the host's right was withdrawn by
// SetAccess, SetHost or RemoveHost, so that no new commands begin; if the host may still use the namespace, the
// error is a [StateError]. If a host does not send the data of a command, its queue ends. If commands have not
// ended within limit, because the store does not answer, the error is a [StateError] too.
func Expel(s *Subsystem, nqn nvmeof.NQN, id capsule.NSID, limit time.Duration) error {
	unfit := func(format string, args ...any) error {
		return &StateError{Subsystem: s.nqn, NSID: id, Err: fmt.Errorf(format, args...)}
	}
	if !revoke(s, nqn, id) {
		return unfit("host %s has access to it: withdraw the access first", nqn)
	}
	of := selection{
		queue:   func(q *queue) bool { return q.controller.subsystem == s && q.controller.hostNQN == nqn },
		request: func(r *request) bool { return r.op.Gate != nil && r.op.Gate.Namespace.ID == id },
	}
	if expel(s.target, of, limit) {
		return nil
	}
	return unfit("%w of host %s within %v", errUnfinished, nqn, limit)
}

// ExpelDenied is Expel for all hosts of a subsystem, and with id 0 for all namespaces: it ends the commands under
// way of hosts in namespaces that they may not use, and returns when the last of them has ended. While a
// [Target.Change] is under way the rights are not final; ExpelDenied waits for its end, within limit.
func ExpelDenied(s *Subsystem, id capsule.NSID, limit time.Duration) error {
	return expelDenied(s, id, limit, func(of capsule.NSID) bool { return id == 0 || of == id })
}

// ExpelDeniedBut is ExpelDenied for all namespaces except those in but, where commands are known not to end.
func ExpelDeniedBut(s *Subsystem, but []capsule.NSID, limit time.Duration) error {
	return expelDenied(s, 0, limit, func(of capsule.NSID) bool { return !slices.Contains(but, of) })
}

func expelDenied(s *Subsystem, id capsule.NSID, limit time.Duration, in func(capsule.NSID) bool) error {
	end := time.Now().Add(limit)
	for !revokeRemoved(s) {
		if time.Now().After(end) {
			return &StateError{Subsystem: s.nqn, NSID: id, Err: errors.New("a configuration change is under way, which may allow hosts again; try again")}
		}
		time.Sleep(settlePause)
	}
	of := selection{
		queue: func(q *queue) bool { return q.controller.subsystem == s },
		request: func(r *request) bool {
			if r.op.Gate == nil || !in(r.op.Gate.Namespace.ID) {
				return false
			}
			return !r.queue.controller.view.Rights.Load().See(r.op.Gate.Namespace.ID)
		},
	}
	if expel(s.target, of, limit) {
		return nil
	}
	return &StateError{Subsystem: s.nqn, NSID: id, Err: fmt.Errorf("%w of hosts without access within %v", errUnfinished, limit)}
}

// expel ends the selected commands, and reports whether the last has ended within limit.
func expel(t *Target, of selection, limit time.Duration) bool {
	ended := make(chan struct{})
	abortCommands(t, of, capsule.StatusAccessDenied|capsule.StatusDNR, func() { close(ended) })
	late := time.NewTimer(limit)
	defer late.Stop()
	timeout := max(min(t.fetchTimeout, limit/2), time.Millisecond)
	return t.urge(ended, late.C, timeout, func(q *queue) bool { return q.executesIO() && of.queue(q) && q.fetching(of.request) })
}

// revoke hides a namespace from later commands of a host. It returns false if the host may use the namespace. The
// controllers of a host that was removed end later, in their shards, or at the end of the change under way.
func revoke(s *Subsystem, nqn nvmeof.NQN, id capsule.NSID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.hosts.Find(nqn); e != nil {
		return !e.Rights.See(id)
	}
	for _, c := range s.controllers {
		if c.hostNQN == nqn {
			c.withhold(id)
		}
	}
	return true
}

// settlePause is the interval between checks for the end of a change.
const settlePause = 5 * time.Millisecond

// revokeRemoved hides all namespaces from hosts that were removed. It returns false if a change under way has removed
// one, and may still allow it again.
func revokeRemoved(s *Subsystem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if s.hosts.Find(c.hostNQN) != nil {
			continue
		}
		if s.target.unsettled.now.Load() > 0 { // incremented before a change removes a host
			return false
		}
		c.view.Rights.Store(access.NewRights(AccessNone, nil))
	}
	return true
}

var errUnfinished = errors.New("its store has not completed the commands")
