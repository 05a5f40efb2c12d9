package meter

import "github.com/nvmeof-go/nvmeof/internal/latency"

// A Turn is what a shard's turn has that is to be counted. How long a command took is known when
// the next turn begins: the response is sent at the end of this one, and the clock is read at the
// beginning of each.
type Turn struct {
	Now     int64 // when it began
	Answers []Answer

	// FromHosts and ToHosts are how long data took: RDMA READs, and RDMA WRITEs until they
	// were acknowledged.
	FromHosts, ToHosts latency.Histogram
}

// An Answer is a command that was answered.
type Answer struct {
	Namespace *Namespace
	Began     int64 // when the turn began in which the command arrived
	Stored    int64 // how long the store had it; negative: it did not
	Op        Op
}

// Next counts what the turn had, when the next one begins.
func (t *Turn) Next(now int64) {
	t.Now = now
	for i := range t.Answers {
		a := &t.Answers[i]
		a.Namespace.count(a.Op, now-a.Began, a.Stored)
		a.Namespace = nil
	}
	t.Answers = t.Answers[:0]
}
