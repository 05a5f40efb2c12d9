package fabric

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A progress watches that the host takes what it is sent. The transport bounds how long a
// host may be silent, and not for how long one may answer and take nothing: RNR NAKs, of
// which it may have allowed any number, or one packet's acknowledgement at a time. Until
// a response is taken its data, its lease and its buffer are not free.
//
// One work request after the other completes, so that it is enough to see whether any has.
// A host that is slow but alive completes the largest transfer at leastRate in time.
type progress struct {
	timer shard.Timer
	ended int           // work requests, of responses, reads and probes
	seen  int           // ended when the timer fired last
	none  time.Duration // for how long nothing has
	limit time.Duration
}

const (
	progressPeriod = 5 * time.Second
	// takeTimeout is how long a host may take nothing at all: as long as Linux waits for a
	// command before it gives up the controller.
	takeTimeout = 30 * time.Second
	leastRate   = 64 << 10 // bytes a second
)

func (q *TargetQueue) watchProgress() {
	p := &q.progress
	p.limit = takeTimeout + time.Duration(q.limits.total)*time.Second/leastRate
	p.timer.Func = q.checkProgress
}

// armProgress starts the timer if something is under way. It runs until nothing is.
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
