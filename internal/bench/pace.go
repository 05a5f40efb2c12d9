package bench

import "time"

// pace delays requests if a job has a rate or pauses. The zero value does not.
type pace struct {
	on     bool
	rate   [Directions]int64         // bytes per second; 0: no limit
	due    [Directions]time.Duration // when the next request is allowed
	next   Direction                 // of the next request
	chosen bool                      // next is valid

	waiting []int // tags without a request
	owing   []int // tags whose block was trimmed and must be written

	think    time.Duration // length of a pause; 0: no pauses
	every    int           // requests between two pauses
	left     int           // requests until the next pause
	pausing  bool          // a pause is due or in progress
	pauseEnd time.Duration // 0: the pause waits for requests in flight
}

const (
	// maxLag bounds how far a job that fell behind its rate catches up.
	maxLag = 100 * time.Millisecond
	// nap is the shortest wait for which a sleep is worthwhile, and the longest sleep, since a sleeper wakes up late.
	nap = 200 * time.Microsecond
)

func newPace(j *Job) pace {
	p := pace{rate: j.Rate, think: j.Think, every: j.ThinkEvery, left: j.ThinkEvery}
	if p.on = j.Rate != [Directions]int64{} || j.Think > 0; p.on {
		p.waiting, p.owing = make([]int, 0, j.Depth), make([]int, 0, j.Depth)
	}
	return p
}

// begin sets the time from which requests are due.
func (p *pace) begin(now time.Duration) {
	for d := range p.due {
		p.due[d] = now
	}
}

// empty reports whether every tag has a request.
func (p *pace) empty() bool { return len(p.waiting)+len(p.owing) == 0 }

// charge counts the bytes of a request.
func (p *pace) charge(d Direction, length int64, now time.Duration) {
	if rate := p.rate[d]; rate > 0 {
		p.due[d] = max(p.due[d]+time.Duration(float64(length)/float64(rate)*1e9), now-maxLag)
	}
}

// completed counts requests towards the next pause.
func (p *pace) completed(n int) {
	if p.think == 0 || p.pausing {
		return
	}
	if p.left -= n; p.left <= 0 {
		p.left, p.pausing, p.pauseEnd = p.every, true, 0
	}
}

// paused reports whether there is a pause now.
func (p *pace) paused(flying int, now time.Duration) bool {
	switch {
	case !p.pausing || flying > 0:
	case p.pauseEnd == 0:
		p.pauseEnd = now + p.think
	case now >= p.pauseEnd:
		p.pausing = false
	}
	return p.pausing
}

// release submits the requests that are due.
func (r *runner) release(now time.Duration) {
	p := &r.pace
	switch {
	case p.empty():
		return
	case !r.open(now): // blocks that were trimmed are still written
		p.waiting = p.waiting[:0]
		for _, tag := range p.owing {
			r.issueWrite(tag, now)
		}
		p.owing = p.owing[:0]
		return
	case p.paused(r.flying, now):
		return
	}
	for len(p.owing) > 0 && p.due[ToWrite] <= now {
		last := len(p.owing) - 1
		r.issueWrite(p.owing[last], now)
		p.owing = p.owing[:last]
	}
	for len(p.waiting) > 0 && r.open(now) {
		d, ok := r.dueNow(now)
		if !ok {
			return
		}
		last := len(p.waiting) - 1
		tag := p.waiting[last]
		p.waiting = p.waiting[:last]
		r.issue(tag, d, now)
	}
}

// dueNow returns the direction of a request that is due, if any. As with fio, a mixed job with one direction waiting
// continues with the other.
func (r *runner) dueNow(now time.Duration) (Direction, bool) {
	p := &r.pace
	if !p.chosen {
		p.next, p.chosen = r.places.direction(), true
	}
	if p.due[p.next] <= now {
		p.chosen = false
		return p.next, true
	}
	other := ToRead + ToWrite - p.next
	return other, r.job.Pattern.Mixed() && p.due[other] <= now
}

// rest waits until the next request is due. No request is in flight.
func (r *runner) rest() {
	p := &r.pace
	at := p.due[p.next]
	switch {
	case p.pausing:
		at = p.pauseEnd
	case r.job.Pattern.Mixed():
		at = min(p.due[ToRead], p.due[ToWrite])
	case len(p.owing) > 0 && len(p.waiting) > 0:
		at = min(at, p.due[ToWrite])
	case len(p.owing) > 0:
		at = p.due[ToWrite]
	}
	if wait := at - r.now(); wait > nap {
		time.Sleep(min(wait-nap/2, nap*50))
	}
}
