package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// Extend has the target serve groups until a time at most, and all others without such a limit: it
// replaces what an earlier call said. The time is since the machine was started, by CLOCK_BOOTTIME, which goes on while
// the machine sleeps. It is looked at as each command begins, so that a
// process that was stopped, and goes on later, begins none after it, and again then: what had begun ends.
// What the store has by that time can still take effect later, and so can what the machine holds up between
// that look and the store.
func (g *Gateway) Extend(until time.Duration, groups []capsule.ANAGroup) {
	if len(groups) == 0 {
		g.lease.Store(nil)
		return
	}
	g.lease.Store(storage.NewLease(until, boottime.Now, groups))
}

// leases is where the lease of a target is, or nil for a target that is no gateway.
func (g *Gateway) leases() *atomic.Pointer[storage.Lease] {
	if g == nil {
		return nil
	}
	return &g.lease
}
