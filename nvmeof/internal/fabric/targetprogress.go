package fabric

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A progress checks that the host accepts what is sent to it. The transport bounds how long a host may be silent. It
// does not bound how long a host may answer without accepting anything: by RNR NAKs, whose number the host may have
// left unlimited, or by acknowledging one packet at a time. The data, lease and buffer of a response stay in use until
// it is accepted.
//
// Work requests complete in order, so it is enough to check whether any has completed. A slow host that is alive
// completes the largest transfer in time at leastRate.
type progress struct {
	timer shard.Timer
	ended int           // completed work requests: responses, reads and probes
	seen  int           // ended when the timer last fired
	none  time.Duration // how long none has completed
	limit time.Duration
}

const (
	progressPeriod = 5 * time.Second
	// takeTimeout is how long a host may accept nothing: as long as Linux waits for a command before it gives up the
	// controller.
	takeTimeout = 30 * time.Second
	leastRate   = 64 << 10 // bytes per second
)

func (q *TargetQueue) watchProgress() {
	p := &q.progress
	p.limit = takeTimeout + time.Duration(q.limits.total)*time.Second/leastRate
	p.timer.Func = q.checkProgress
}

// armProgress starts the timer if work requests are outstanding. It runs until none are.
func (q *TargetQueue) armProgress() {
	if p := &q.progress; q.send.room < q.send.depth && !p.timer.Running() {
		p.seen, p.none = p.ended, 0
		q.cfg.Shard.SetTimer(&p.timer, progressPeriod)
	}
}

func (q *TargetQueue) checkProgress() {
	p := &q.progress
	switch {
	case q.state != StateLive || q.send.room == q.send.depth:
		return
	case p.ended != p.seen:
		p.seen, p.none = p.ended, 0
	default:
		if p.none += progressPeriod; p.none >= p.limit {
			q.fail(ErrUndelivered)
			return
		}
	}
	q.cfg.Shard.SetTimer(&p.timer, progressPeriod)
}
