package rc

import (
	"math"
	"time"
)

// rateControl is the reaction point of congestion control ("RP" in DCQCN): the
// rate at which a queue pair may send data of either role. It exists between the
// first CNP and the time when it has long limited nothing. No timer drives it:
// what is due by time is made up for when the next packet or CNP comes.
type rateControl struct {
	on     bool // else there is no limit, and nothing below means anything
	bucket bucket

	metering bool          // the rate is not known yet: what is sent is measured
	metered  int           // bytes, since
	cutAt    time.Duration // the last reduction, or the start of the measurement
	cnpAt    time.Duration

	rate, target Rate
	alpha        float64
	roundAt      time.Duration // the last rise by time, or reduction
	bytes        int           // sent since the last rise by bytes, or reduction
	timeRounds   int           // rises since the last reduction
	byteRounds   int
	sent         int // bytes since the last rise by time was due
	idleRounds   int // increase periods in a row in which the limit was not used up
}

const (
	// idleLimit is after how many periods that did not use up the limit it goes.
	idleLimit = 64
	// maxRises is how many rises are made up for at once.
	maxRises = 16
	// lossAlpha bounds alpha where packets were lost, and how many is not known: to
	// foreign peers, and at timeouts. One overflow loses several, and not only
	// overflows do. Else it is the share lost that bounds it (lossmeter.go).
	lossAlpha = 0.3
	// forgetAfter is how long after the last CNP it goes in any case, since a path
	// may be another one by then.
	forgetAfter = 200 * time.Millisecond
	// unknownRoundTrip stands in where no round trip was measured.
	unknownRoundTrip = 200 * time.Microsecond
)

// receiveCNP: the peer got a packet of ours that was marked.
func (q *QP) receiveCNP(now time.Duration) {
	q.cfg.Counters.CNPsGot++
	q.congested(now, 1)
}

// congested takes one sign of congestion, which reduces the rate by alpha/2, where
// alpha is most at most.
func (q *QP) congested(now time.Duration, most float64) {
	r, c := &q.rate, &q.cfg.Rate
	trip := q.roundTrip()
	switch {
	case c.Ignore:
		return
	case !r.on:
		r.start(now)
		return
	case r.metering && now-r.cutAt > r.quiet(q):
		r.start(now) // another congestion: most of that time was idle
		return
	}
	r.decay(now, c)
	r.cnpAt = now
	r.alpha = (1-c.Gain)*r.alpha + c.Gain
	// What arrives within a round trip of a reduction reports the time before it.
	if now-r.cutAt < max(c.CNPInterval, trip) {
		return
	}
	if r.metering {
		r.metering = false
		r.rate = Rate(r.metered) / Rate((now - r.cutAt).Seconds())
		r.target = max(r.rate, c.MinRate)
	} else if r.rise(now, c, trip); r.timeRounds+r.byteRounds > 0 {
		r.target = r.rate // a second reduction in a row leaves the target
	}
	r.rate = max(r.rate*Rate(1-min(r.alpha, most)/2), c.MinRate)
	r.cutAt, r.roundAt = now, now
	r.sent, r.bytes, r.timeRounds, r.byteRounds, r.idleRounds = 0, 0, 0, 0, 0
	q.rtt.sends.shrink(int(r.rate.over(q.rtt.long())))
	q.cfg.Counters.RateReductions++
}

// notified reports whether a CNP came lately.
func (q *QP) notified(now time.Duration) bool { return now-q.rate.cnpAt < 4*q.roundTrip() }

func (q *QP) roundTrip() time.Duration {
	if q.rtt.smooth == 0 {
		return unknownRoundTrip
	}
	return q.rtt.smooth
}

// start begins to measure the rate, for a round trip: that is what the first
// reduction starts from, in place of a line rate that is not known.
func (r *rateControl) start(now time.Duration) {
	*r = rateControl{on: true, metering: true, alpha: 1, cutAt: now, cnpAt: now, roundAt: now}
}

// decay makes up for the alpha periods that passed without a CNP.
func (r *rateControl) decay(now time.Duration, c *RateConfig) {
	if n := (now - r.cnpAt) / c.AlphaPeriod; n > 0 {
		r.alpha *= math.Pow(1-c.Gain, float64(n))
	}
}

// rise makes up for the increase periods that have passed, once there is traffic
// again. A limit of which not even half was used does not rise, or it would soon
// allow anything.
func (r *rateControl) rise(now time.Duration, c *RateConfig, trip time.Duration) {
	elapsed := now - r.roundAt
	n := int(elapsed / max(c.IncreasePeriod, trip))
	if n == 0 {
		return
	}
	could := r.rate.over(elapsed)
	used := 2*float64(r.sent) >= could
	// A large packet fills several periods of a low rate.
	r.sent = max(0, r.sent-int(could))
	r.roundAt = now
	if !used {
		r.idleRounds++
		return
	}
	r.idleRounds = 0
	for range min(n, maxRises) {
		r.timeRounds++
		r.step(c)
	}
}

// step is one rise: half the way to the target, which itself rises after the
// first stage.
func (r *rateControl) step(c *RateConfig) {
	switch rounds := max(r.timeRounds, r.byteRounds); {
	case rounds <= c.FastRounds:
	case rounds <= c.HyperRounds:
		r.target += c.AdditiveStep
	default:
		r.target += c.HyperStep * Rate(rounds-c.HyperRounds)
	}
	r.rate = (r.rate + r.target) / 2
}

// paced reports whether n bytes of data may go now. If not, the queue pair's
// timer tells when.
func (q *QP) paced(now time.Duration, n int) bool {
	r, c := &q.rate, &q.cfg.Rate
	if r.metering {
		r.metered += n
		r.on = now-r.cutAt < r.quiet(q)
		return true
	}
	r.rise(now, c, q.roundTrip())
	if r.idleRounds >= idleLimit || now-r.cnpAt > forgetAfter {
		r.on = false
		return true
	}
	if !r.bucket.take(now, n, r.rate) {
		q.timer.set(timerPace, r.bucket.resume)
		return false
	}
	r.sent += n
	if r.bytes += n; r.bytes >= c.IncreaseBytes {
		r.bytes = 0
		r.byteRounds++
		r.step(c)
	}
	if r.bucket.resume > now {
		// What waits now has asked for the acknowledgement that it may depend on.
		q.req.unasked = ackEvery - 1
	}
	return true
}

// quiet is how long a single CNP is remembered.
func (r *rateControl) quiet(q *QP) time.Duration {
	return 16*q.roundTrip() + time.Millisecond
}
