package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// Extend lets the target serve groups until a given time at most, and all other groups without a limit; it
// replaces the limits of earlier calls. The time is that of CLOCK_BOOTTIME, since the machine was started, which
// continues while the machine sleeps. It is checked when a command begins, so that a process that was stopped
// begins none after it, and when such a process continues: then commands that have begun are ended. Operations
// that a store has by that time can still take effect later, and so can those that the machine delays between the
// check and the store.
func (g *Gateway) Extend(until time.Duration, groups []capsule.ANAGroup) {
	if len(groups) == 0 {
		g.lease.Store(nil)
		return
	}
	g.lease.Store(storage.NewLease(until, boottime.Now, groups))
}

// leases returns the place of the target's lease, or nil if the target is no gateway.
func (g *Gateway) leases() *atomic.Pointer[storage.Lease] {
	if g == nil {
		return nil
	}
	return &g.lease
}
