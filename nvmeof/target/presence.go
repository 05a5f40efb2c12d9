package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// probePeriod is the interval at which silence of a host is noted, unless the keep alive timer does that. The
// transport of a silent host then has to acknowledge a message, so that controllers without keep alive end with
// their hosts.
const probePeriod = 2 * time.Second

// A presence tracks when a host was last heard. It belongs to its controller's shard, except heardAt.
type presence struct {
	controller *Controller
	timer      shard.Timer
	probed     bool          // the host was silent when the timer fired last, and was probed
	active     bool          // a command has arrived since the keep alive timer was set
	born       time.Duration // constant
	noticed    time.Duration // when notice was last called
	heardAt    atomic.Int64  // when the arrival of a command was last noted; see Target.age
}

func (p *presence) init(c *Controller) {
	p.controller, p.timer.Func = c, p.due
	p.born = c.target.age()
	p.noticed = p.born
	p.heardAt.Store(int64(p.born))
}

// age is the target's clock. It is common to all shards, and continues while the machine sleeps, as hosts' clocks
// do.
func (t *Target) age() time.Duration { return time.Since(t.started) + t.slept() }

// notice notes whether a command has arrived on any queue since the last call. If so, the expiry counts from the last
// call, since the command may have arrived right after it.
func (p *presence) notice() {
	c, before := p.controller, p.noticed
	p.noticed = c.target.age()
	if c.sawTraffic() {
		p.active = true
		p.heardAt.Store(int64(p.noticed))
		if c.keep.Enabled() {
			p.setExpiry(before)
		}
	}
}

// setExpiry sets the expiry of the association for a host whose last command did not arrive before the given time.
func (p *presence) setExpiry(heard time.Duration) {
	p.controller.expires.set(heard + expiryPeriods*p.controller.keep.Timeout())
}

// silence returns for how long no arrival of a command has been noted, and whether the association is ending. It
// may be called by any goroutine.
func (p *presence) silence(now time.Duration) (d time.Duration, ending bool) {
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	d = now - time.Duration(p.heardAt.Load())
	if c.admin.traffic.Load() {
		d = 0
	}
	for _, q := range c.queues {
		if q.traffic.Load() {
			d = 0
		}
	}
	return d, c.dying
}

// arm starts the timer, unless the keep alive timer is at least as frequent.
func (p *presence) arm() {
	c := p.controller
	if c.keep.Enabled() && c.keep.Timeout() <= probePeriod {
		c.shard.StopTimer(&p.timer)
	} else if !p.timer.Running() {
		c.shard.SetTimer(&p.timer, probePeriod)
	}
}

// due checks a host whose keep alive timer is disabled or slow.
func (p *presence) due() {
	c, before := p.controller, p.heardAt.Load()
	p.notice()
	p.probed = p.heardAt.Load() == before && (c.keep.Millis == 0 || c.keep.Timeout() > discoveryTimeout)
	if p.probed {
		c.admin.wire.Probe()
	}
	c.shard.SetTimer(&p.timer, probePeriod)
}

// lost notes that the connection has ended by an error, which happens if the host does not acknowledge a probe.
func (p *presence) lost() {
	if c := p.controller; p.probed && !c.admin.traffic.Load() {
		c.target.controllerCounts.unanswered.Add(1)
	}
}
