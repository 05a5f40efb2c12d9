package rc

import "time"

const (
	// lateTime is the maximum delay of a turn of the shard, which sleeps in between, for which the bucket
	// compensates.
	lateTime = 64 * time.Microsecond
	// burstBytes is the maximum burst after a pause, and about what is sent in each turn. Queues of switches may hold
	// no more.
	burstBytes = 8 << 10
	// smallData is the size up to which data is charged but not delayed: commands and responses, which do not fill
	// queues.
	smallData = 512
)

// bucket is a token bucket that may be overdrawn by one packet. It then refills to half a burst before the next
// packet, so that packets are sent in small groups.
type bucket struct {
	tokens float64 // bytes
	at     time.Duration
	resume time.Duration // nothing may be taken before
	waited bool          // something was refused since the last packet
}

// take takes n bytes at that rate, and reports whether they may be sent now.
func (b *bucket) take(now time.Duration, n int, rate Rate) bool {
	if now < b.resume && n > smallData {
		b.waited = true
		return false
	}
	depth := float64(burstBytes)
	if b.waited {
		depth = max(depth, rate.over(lateTime))
	}
	b.tokens = min(depth, b.tokens+rate.over(now-b.at)) - float64(n)
	b.at, b.waited = now, false
	if b.tokens <= 0 {
		b.resume = now + time.Duration((min(burstBytes, rate.over(lateTime))/2-b.tokens)/float64(rate)*1e9)
	}
	return true
}
