package state

import (
	"math"
	"time"
)

// KeepAliveUnits is KAS: timeouts are rounded up to multiples of this many units of 100 ms.
const (
	KeepAliveUnits = 10
	granularity    = KeepAliveUnits * 100 * time.Millisecond
)

// KeepAlive is a controller's keep alive timer (NVMe base 2.0, 3.9) with traffic based keep alive: any command
// restarts it. Times are nanoseconds of the shard's clock.
type KeepAlive struct {
	timeout  int64 // 0: none
	deadline int64
	late     bool   // the timeout has passed, and the grace period runs
	Millis   uint32 // the host's timeout, rounded up, as it is reported
}

// Set sets the timeout from a KATO in milliseconds; 0 means none.
func (k *KeepAlive) Set(millis uint32, now int64) {
	d := time.Duration(millis) * time.Millisecond
	d = (d + granularity - 1) / granularity * granularity
	k.timeout, k.Millis = int64(d), uint32(min(d/time.Millisecond, math.MaxUint32))
	k.Restart(now)
}

// Restart restarts the timer when a command has arrived.
func (k *KeepAlive) Restart(now int64) {
	if k.timeout != 0 {
		k.deadline, k.late = now+k.timeout, false
	}
}

// Fallback sets a timeout for a host that has set none and can send no Keep Alive.
func (k *KeepAlive) Fallback(d time.Duration, now int64) {
	if k.timeout == 0 {
		k.timeout = int64(d)
		k.Restart(now)
	}
}

// Grace extends the deadline by half the timeout, once, and reports whether it did. Linux checks at intervals of
// half of KATO whether commands have completed. If one completed right after a check, the next Keep Alive comes a
// whole KATO later, and must not be too late.
func (k *KeepAlive) Grace(now int64) bool {
	if k.late {
		return false
	}
	k.deadline, k.late = now+k.timeout/2, true
	return true
}

// Timeout returns how long a host may be silent; 0 means forever.
func (k *KeepAlive) Timeout() time.Duration { return time.Duration(k.timeout) }

// Enabled reports whether there is a timeout.
func (k *KeepAlive) Enabled() bool { return k.timeout != 0 }

// Expired reports whether the deadline has passed.
func (k *KeepAlive) Expired(now int64) bool { return k.Enabled() && now >= k.deadline }

// Next returns when Expired has to be called next.
func (k *KeepAlive) Next() int64 {
	if !k.Enabled() {
		return math.MaxInt64
	}
	return k.deadline
}
