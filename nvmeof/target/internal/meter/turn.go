package meter

import "github.com/nvmeof-go/nvmeof/internal/latency"

// A Turn has the measurements of a shard's turn. The duration of a command is known when the next turn begins: its
// response is sent at the end of this turn, and the clock is read at the beginning of each.
type Turn struct {
	Now     int64 // the time at the beginning of the turn
	Answers []Answer

	// FromHosts and ToHosts are how long transfers of data took: of RDMA READs, and of RDMA WRITEs until they were
	// acknowledged.
	FromHosts, ToHosts latency.Histogram
}

// An Answer is a completed command.
type Answer struct {
	Namespace *Namespace
	Began     int64 // the beginning of the turn in which the command arrived
	Stored    int64 // how long the store had it; negative: it was not submitted
	Op        Op
}

// Next counts the commands of the turn. It is called when the next turn begins.
func (t *Turn) Next(now int64) {
	t.Now = now
	for i := range t.Answers {
		a := &t.Answers[i]
		a.Namespace.count(a.Op, now-a.Began, a.Stored)
		a.Namespace = nil
	}
	t.Answers = t.Answers[:0]
}
