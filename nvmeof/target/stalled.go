package target

import (
	"time"

	"go.uber.org/zap"
)

// fetchTimeout is how long a host may take to send the data of a command that others wait for. A host that keeps
// its connection and does not answer RDMA READs could otherwise delay them for any time.
const fetchTimeout = 3 * time.Second

// urge waits for ended, and returns false if late comes first. After each timeout it ends the queues that cause
// the delay, those for which holdsUp returns true in their shards.
func (t *Target) urge(ended <-chan struct{}, late <-chan time.Time, timeout time.Duration, holdsUp func(*queue) bool) bool {
	again := time.NewTicker(timeout)
	defer again.Stop()
	for {
		select {
		case <-ended:
			return true
		case <-late:
			return false
		case <-again.C:
			t.dropStalled(holdsUp)
		}
	}
}

func (t *Target) dropStalled(holdsUp func(*queue) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range t.queues {
		q.shard.Do(func() {
			if q.controller == nil || q.failed || q.why != "" || !holdsUp(q) {
				return
			}
			t.log.Trouble("queue ended: its host does not deliver the data of a command, and other commands wait for that",
				zap.String("host", string(q.controller.hostNQN)), zap.String("subsystem", string(q.controller.subsystem.nqn)),
				zap.Uint16("qid", uint16(q.id)), zap.Stringer("peer", q.remote))
			q.disconnect(endUndelivered)
		})
	}
}
