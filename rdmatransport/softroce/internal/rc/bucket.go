package rc

import "time"

const (
	// lateTime is for how late a turn of the shard, which sleeps in between, the
	// bucket makes up.
	lateTime = 64 * time.Microsecond
	// burstBytes is what goes at once after a pause, and about what goes at each
	// turn. Queues of switches may hold no more.
	burstBytes = 8 << 10
	// smallData is what is charged and not held back: commands and their answers,
	// which fill no queue.
	smallData = 512
)

// bucket is a token bucket that may be overdrawn by one packet, and is then left
// alone for half a burst, so that packets leave in small groups.
type bucket struct {
	tokens float64 // bytes
	at     time.Duration
	resume time.Duration // nothing is taken before
	waited bool          // something was refused since the last was taken
}

// take reports whether n bytes may go now at that rate.
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
