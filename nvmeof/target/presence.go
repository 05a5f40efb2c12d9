package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// probePeriod is how often it is noted whether a host is silent, where the keep alive
// timer does not do so. The transport of one that is silent then has to acknowledge a
// message, so that controllers without keep alive end with their hosts.
const probePeriod = 2 * time.Second

// A presence is when a host was last heard. It belongs to its controller's shard, but for
// heardAt.
type presence struct {
	controller *Controller
	timer      shard.Timer
	probed     bool          // the host was silent when the timer fired last, and was probed
	active     bool          // a command has arrived since the keep alive timer was set
	born       time.Duration // constant
	heardAt    atomic.Int64  // when it was last noted that a command had arrived; see Target.age
}

func (p *presence) init(c *Controller) {
	p.controller, p.timer.Func = c, p.due
	p.born = c.target.age()
	p.heardAt.Store(int64(p.born))
}

// age is a clock that all shards have in common, and that goes on while the machine sleeps, as those of hosts do.
func (t *Target) age() time.Duration { return time.Since(t.started) + t.slept() }

// notice notes whether a command has arrived on any queue since the last call.
func (p *presence) notice() {
	if p.controller.sawTraffic() {
		p.active = true
		p.heardAt.Store(int64(p.controller.target.age()))
	}
}

// silence is for how long no command has arrived, as far as that was noted, and whether
// the association ends. Any goroutine may call it.
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

// arm starts the timer where that of the keep alive does not do as well.
func (p *presence) arm() {
	c := p.controller
	if c.keep.Enabled() && c.keep.Timeout() <= probePeriod {
		c.shard.StopTimer(&p.timer)
	} else if !p.timer.Running() {
		c.shard.SetTimer(&p.timer, probePeriod)
	}
}

// due looks at a host whose keep alive timer is off or slow.
func (p *presence) due() {
	c, before := p.controller, p.heardAt.Load()
	p.notice()
	p.probed = p.heardAt.Load() == before && (c.keep.Millis == 0 || c.keep.Timeout() > discoveryTimeout)
	if p.probed {
		c.admin.wire.Probe()
	}
	c.shard.SetTimer(&p.timer, probePeriod)
}

// lost notes that the connection has ended by an error, as it does if the host does not
// acknowledge a probe.
func (p *presence) lost() {
	if c := p.controller; p.probed && !c.admin.traffic.Load() {
		c.target.controllerCounts.unanswered.Add(1)
	}
}
