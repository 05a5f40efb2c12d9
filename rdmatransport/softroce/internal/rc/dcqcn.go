package rc

import (
	"math"
	"time"
)

// rateControl is the reaction point of congestion control (RP in DCQCN): it limits the rate at which a queue pair
// sends data in either role. It is active from the first CNP until it has had no effect for a while. No timer drives
// it: the steps due since the last packet or CNP are made up for at the next one.
type rateControl struct {
	on     bool // otherwise there is no limit, and the other fields are not valid
	bucket bucket

	metering bool          // the rate is still being measured
	metered  int           // bytes sent while metering
	cutAt    time.Duration // time of the last reduction, or start of the measurement
	cnpAt    time.Duration

	rate, target Rate
	alpha        float64
	roundAt      time.Duration // time of the last increase by time, or reduction
	bytes        int           // sent since the last increase by bytes, or reduction
	timeRounds   int           // increases by time since the last reduction
	byteRounds   int
	sent         int // bytes sent since the last increase by time was due
	idleRounds   int // consecutive increase periods that did not use the limit
}

const (
	// idleLimit is the number of periods without use of the limit after which it is removed.
	idleLimit = 64
	// maxRises is the maximum number of increases made up for at once.
	maxRises = 16
	// lossAlpha is the maximum of alpha for losses whose number is unknown: to foreign peers, and at timeouts. One
	// overflow loses several packets, and there are other reasons for loss. If the loss rate is known, it is the
	// maximum (lossmeter.go).
	lossAlpha = 0.3
	// forgetAfter is the time since the last CNP after which the limit is removed in any case, since the path may
	// have changed.
	forgetAfter = 200 * time.Millisecond
	// unknownRoundTrip is used before a round trip was measured.
	unknownRoundTrip = 200 * time.Microsecond
)

// receiveCNP handles a CNP: a packet of ours was marked on its way to the peer.
func (q *QP) receiveCNP(now time.Duration) {
	q.cfg.Counters.CNPsGot++
	q.congested(now, 1)
}

// congested handles one sign of congestion. It reduces the rate by alpha/2, where alpha is at most most.
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
		r.start(now) // a new congestion: most of the time since was idle
		return
	}
	r.decay(now, c)
	r.cnpAt = now
	r.alpha = (1-c.Gain)*r.alpha + c.Gain
	// A sign within a round trip of a reduction is about the time before it.
	if now-r.cutAt < max(c.CNPInterval, trip) {
		return
	}
	if r.metering {
		r.metering = false
		r.rate = Rate(r.metered) / Rate((now - r.cutAt).Seconds())
		r.target = max(r.rate, c.MinRate)
	} else if r.rise(now, c, trip); r.timeRounds+r.byteRounds > 0 {
		r.target = r.rate // two reductions in a row leave the target as it is
	}
	r.rate = max(r.rate*Rate(1-min(r.alpha, most)/2), c.MinRate)
	r.cutAt, r.roundAt = now, now
	r.sent, r.bytes, r.timeRounds, r.byteRounds, r.idleRounds = 0, 0, 0, 0, 0
	q.rtt.sends.shrink(int(r.rate.over(q.rtt.long())))
	q.cfg.Counters.RateReductions++
}

// notified reports whether a CNP arrived recently.
func (q *QP) notified(now time.Duration) bool { return now-q.rate.cnpAt < 4*q.roundTrip() }

func (q *QP) roundTrip() time.Duration {
	if q.rtt.smooth == 0 {
		return unknownRoundTrip
	}
	return q.rtt.smooth
}

// start begins to measure the rate for a round trip. The first reduction starts from the measured rate, since the
// line rate is not known.
func (r *rateControl) start(now time.Duration) {
	*r = rateControl{on: true, metering: true, alpha: 1, cutAt: now, cnpAt: now, roundAt: now}
}

// decay decays alpha for the alpha periods that passed without a CNP.
func (r *rateControl) decay(now time.Duration, c *RateConfig) {
	if n := (now - r.cnpAt) / c.AlphaPeriod; n > 0 {
		r.alpha *= math.Pow(1-c.Gain, float64(n))
	}
}

// rise increases the rate for the periods that have passed. A limit of which less than half was used is not
// increased; otherwise it would soon allow anything.
func (r *rateControl) rise(now time.Duration, c *RateConfig, trip time.Duration) {
	elapsed := now - r.roundAt
	n := int(elapsed / max(c.IncreasePeriod, trip))
	if n == 0 {
		return
	}
	could := r.rate.over(elapsed)
	used := 2*float64(r.sent) >= could
	// A large packet uses several periods of a low rate.
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

// step is one increase: halfway to the target, which is itself increased after the first stage.
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

// paced reports whether n bytes of data may be sent now. If not, it sets the queue pair's timer.
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
		// The next packet asks for an acknowledgement, which the packets that now wait may depend on.
		q.req.unasked = ackEvery - 1
	}
	return true
}

// quiet returns how long the measurement that follows a single CNP lasts.
func (r *rateControl) quiet(q *QP) time.Duration {
	return 16*q.roundTrip() + time.Millisecond
}
