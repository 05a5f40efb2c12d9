package rc

import "time"

const (
	// bucketTime is how much time's worth of bytes the bucket holds: about what
	// passes between two turns of a shard that sleeps in between.
	bucketTime = 64 * time.Microsecond
	// smallData is what is charged and not held back: commands and their answers,
	// which fill no queue.
	smallData = 512
)

// bucket is a token bucket that may be overdrawn by one packet, and is then left
// alone until it is half full, so that packets leave in small groups.
type bucket struct {
	tokens float64 // bytes
	at     time.Duration
	resume time.Duration // nothing is taken before
}

// take reports whether n bytes may go now at that rate.
func (b *bucket) take(now time.Duration, n int, rate Rate) bool {
	if now < b.resume && n > smallData {
		return false
	}
	depth := float64(rate) * bucketTime.Seconds()
	b.tokens = min(depth, b.tokens+float64(rate)*(now-b.at).Seconds()) - float64(n)
	b.at = now
	if b.tokens <= 0 {
		b.resume = now + time.Duration((min(depth/2, 4096)-b.tokens)/float64(rate)*1e9)
	}
	return true
}
