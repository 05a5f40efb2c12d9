package bench

import "time"

// pace holds requests back where a job has a rate. The zero value does not.
type pace struct {
	gap     time.Duration // between two of one direction; 0: none
	due     [Directions]time.Duration
	next    Direction // of the request that waits longest
	chosen  bool      // next is
	waiting []int     // tags without a request
}

const (
	// maxLag is how far a job that fell behind its rate catches up.
	maxLag = 100 * time.Millisecond
	// nap is how long a wait is worth a sleep, and how long that lasts at most, since
	// whoever sleeps wakes up late.
	nap = 200 * time.Microsecond
)

func newPace(j *Job) pace {
	if j.Rate == 0 {
		return pace{}
	}
	return pace{gap: time.Second / time.Duration(j.Rate), waiting: make([]int, 0, j.Depth)}
}

// begin sets the time from which on requests are due.
func (p *pace) begin(now time.Duration) {
	for d := range p.due {
		p.due[d] = now
	}
}

// release submits what is due.
func (r *runner) release(now time.Duration) {
	p := &r.pace
	for len(p.waiting) > 0 {
		if !r.open(now) {
			p.waiting = p.waiting[:0]
			return
		}
		if !p.chosen {
			p.next, p.chosen = r.places.direction(), true
		}
		if p.due[p.next] > now {
			return
		}
		p.due[p.next] = max(p.due[p.next]+p.gap, now-maxLag)
		p.chosen = false
		tag := p.waiting[len(p.waiting)-1]
		p.waiting = p.waiting[:len(p.waiting)-1]
		r.issue(tag, p.next, now)
	}
}

// rest is what a job that has nothing in flight does until its next request is due.
func (r *runner) rest() {
	wait := r.pace.due[r.pace.next] - r.now()
	if wait > nap {
		time.Sleep(min(wait-nap/2, nap*50))
	}
}
