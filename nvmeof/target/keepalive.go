package target

import (
	"math"
	"time"
)

// Keep alive timeouts are rounded up to units of KAS (100 ms each).
const (
	keepAliveUnits       = 10
	keepAliveGranularity = keepAliveUnits * 100 * time.Millisecond
)

// keepAlive is a controller's keep alive timer (NVMe base 2.0, 3.9) with
// traffic based keep alive: any command restarts it. Times are nanoseconds of
// the shard's clock.
type keepAlive struct {
	timeout  int64 // 0: none
	deadline int64
	late     bool   // the timeout has passed, and the grace runs
	millis   uint32 // as the host set it
}

// set takes a KATO in milliseconds, 0 for none.
func (k *keepAlive) set(millis uint32, now int64) {
	k.millis = millis
	d := time.Duration(millis) * time.Millisecond
	d = (d + keepAliveGranularity - 1) / keepAliveGranularity * keepAliveGranularity
	k.timeout = int64(d)
	k.restart(now)
}

func (k *keepAlive) restart(now int64) {
	if k.timeout != 0 {
		k.deadline, k.late = now+k.timeout, false
	}
}

// discoveryTimeout ends discovery controllers that have no keep alive timer, and
// so are not persistent, if their host is silent for as long (NVMe base 2.0, 3.1.2.3).
const discoveryTimeout = 2 * time.Minute

// fallback sets a timeout where the host has set none, which no Keep Alive
// command is accepted for.
func (k *keepAlive) fallback(d time.Duration, now int64) {
	if k.timeout == 0 {
		k.timeout = int64(d)
		k.restart(now)
	}
}

// grace gives a host half its timeout more, once, and reports whether it did. Linux
// looks every half of KATO whether commands were answered, and where one was right
// after it looked sends Keep Alive a whole KATO later, which then has to arrive.
func (k *keepAlive) grace(now int64) bool {
	if k.late {
		return false
	}
	k.deadline, k.late = now+k.timeout/2, true
	return true
}

func (k *keepAlive) enabled() bool { return k.timeout != 0 }

// expired is true once at the deadline and from then on.
func (k *keepAlive) expired(now int64) bool { return k.enabled() && now >= k.deadline }

// next is when to look again.
func (k *keepAlive) next() int64 {
	if !k.enabled() {
		return math.MaxInt64
	}
	return k.deadline
}
