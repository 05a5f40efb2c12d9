package target

import (
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// abortGroupsTime is how long a store may take to complete commands of groups that the target has lost. After that the
// hosts' connections are ended, so that they continue through another target.
const abortGroupsTime = time.Second

// abort ends the commands under way in namespaces of groups so that their hosts retry them on another path:
// commands that were not submitted to a store at once, the others when the store has completed them. Called with
// mu held.
func (g *Gateway) abort(which func(capsule.ANAGroup) bool) {
	lost := func(group capsule.ANAGroup) bool { return ana.Valid(group) && which(group) && !g.serves(group) }
	g.eachQueue(func(q *queue) { q.abortGroups(lost) })
	time.AfterFunc(abortGroupsTime, func() { // runs once; queues without such commands are left alone
		g.eachQueue(func(q *queue) {
			if n := q.abortGroups(lost); n > 0 {
				q.target.log.Trouble("queue ended: a store does not complete commands of an ANA group that this target no longer serves",
					zap.String("host", string(q.controller.hostNQN)), zap.String("subsystem", string(q.controller.subsystem.nqn)),
					zap.Uint16("qid", uint16(q.id)), zap.Stringer("peer", q.remote), zap.Int("commands", n))
				q.disconnect("commands of an ANA group that is no longer served do not complete")
			}
		})
	})
}

// eachQueue calls f for each connected I/O queue, in its shard.
func (g *Gateway) eachQueue(f func(*queue)) {
	t := g.target
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range t.queues {
		q.shard.Do(func() {
			if q.executesIO() && !q.failed && q.why == "" {
				f(q)
			}
		})
	}
}

// abortGroups ends the commands under way in namespaces of groups. It returns how many will end only when their store
// has completed them.
func (q *queue) abortGroups(lost func(capsule.ANAGroup) bool) (left int) {
	for i := range q.requests {
		r := &q.requests[i]
		switch {
		case r.stage == stageIdle || r.stage == stageAnswered || r.stage == stageHeld:
		case r.op.Gate == nil || !lost(r.op.Gate.Namespace.Group()):
		case r.stop(capsule.StatusANAInaccessible) != stopNow:
			r.stopped = capsule.StatusANAInaccessible
			left++
		}
	}
	return left
}
