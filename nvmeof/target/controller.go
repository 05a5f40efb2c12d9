package target

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// A Controller is one association with a host: an admin queue and its I/O queues. Its fields belong to the shard
// of the admin queue, except the identity, which is constant, and the fields under mu.
type Controller struct {
	target    *Target
	subsystem *Subsystem
	traits    *traits // those of the subsystem when the association began
	id        capsule.ControllerID
	kind      capsule.ControllerType
	hostNQN   nvmeof.NQN
	hostID    capsule.HostID
	listener  *Listener
	localAddr netip.Addr
	peer      netip.Addr
	connected time.Time
	log       *zap.Logger

	shard        *shard.Shard
	admin        *queue
	props        state.Properties
	keep         state.KeepAlive
	timer        shard.Timer // for keep alive
	expires      expiry
	expired      bool // its keep alive timeout has expired; reported once, since the host may have it reset at the same moment
	presence     presence
	events       state.Events[*request]
	features     features
	changed      state.ChangedNamespaces
	unidentified state.Unidentified
	settle       shard.Timer // for the namespaces that the host has identified
	warned       uint8       // critical warnings that were reported to the host, or existed before it connected
	failures     int         // likewise, the number of namespaces that no longer accept writes
	notices      state.ReservationLogs
	persistent   []byte // the context of the Persistent Event log; nil: none
	shutdown     shutdown
	flushing     flushing
	// dismissed means that the reason for the end of the association has been logged.
	dismissed bool

	view       storage.View  // contains the host's rights: see Subsystem.judge and grant
	protested  atomic.Bool   // see refusedWrite
	generation atomic.Uint64 // of its discovery log; see Target.reshape
	shown      shownAs       // under Target.mu
	aborts     int           // Abort commands under way
	late       atomic.Bool   // Reads take no leases; see tookLong
	lateness   shard.Timer   // ends late
	durable    atomic.Bool   // the host disabled the volatile write cache; read by I/O queues

	errors errorRing

	owns          bool        // it counts as a user of the host identifier; see own
	keyed         bool        // the host had a key at Connect; constant
	authenticated atomic.Bool // the host has authenticated on the admin queue

	mu        sync.Mutex
	ready     bool // I/O queues may connect
	dying     bool // the association is ending: no queue may join
	adminGone bool
	granted   int // number of I/O queues; see grantedQueues
	queues    map[capsule.QID]*queue
	unproven  map[*queue]struct{} // I/O queues of a host with a key on which it has not authenticated; see joinQueue
	written   state.Written       // accumulated from the I/O queues that have ended
}

// newController returns a controller for a host whose Connect command is valid. It belongs to the calling shard.
func newController(q *queue, s *Subsystem, d *capsule.ConnectData) *Controller {
	host := nvmeof.NQN(d.HostNQN.String())
	entry := s.hostConfig(host)
	c := &Controller{
		target: q.target, subsystem: s, traits: s.traits.Load(), kind: capsule.ControllerTypeIO,
		hostNQN: host, hostID: d.HostID,
		listener: q.listener, localAddr: q.local.Addr(), peer: q.remote.Addr(), connected: time.Now(),
		shard: q.shard, admin: q, queues: make(map[capsule.QID]*queue), unproven: make(map[*queue]struct{}),
		granted: q.target.cfg.MaxQueues,
		keyed:   entry.authenticates(),
	}
	if s.discovery {
		c.kind = capsule.ControllerTypeDiscovery
	}
	c.view.Table, c.view.Paths, c.view.Born = &s.namespaces, &q.listener.ana, s.generation.Load()
	c.view.Lease = q.target.cfg.Gateway.leases()
	c.timer.Func, c.settle.Func = c.keepAliveDue, c.settled
	c.presence.init(c)
	c.lateness.Func = func() { c.late.Store(false) }
	c.resetState()
	return c
}

func (c *Controller) discovery() bool { return c.kind == capsule.ControllerTypeDiscovery }

// trusted reports whether the host has authenticated, if it has to. It may be called from any goroutine.
func (c *Controller) trusted() bool { return !c.keyed || c.authenticated.Load() }

func (c *Controller) now() int64 { return c.shard.Now() }

// do runs f in the controller's shard. It may be called from any goroutine.
func (c *Controller) do(f func()) { c.shard.Do(f) }

// resetState resets the state that a controller level reset clears.
func (c *Controller) resetState() {
	c.props = state.NewProperties(c.target.cfg.QueueDepth, c.traits.version, !c.discovery())
	c.features = features{stampedAt: c.now(), limits: health.DefaultLimits()}
	c.warned, c.failures = 0, 0
	for i := range c.target.features {
		c.features.values[i] = c.target.features[i].initial
	}
	c.durable.Store(false)
	c.events.Reset()
	c.changed.Clear()
	c.notices = state.ReservationLogs{}
	c.persistent = nil // NVMe base 2.0, 5.16.1.14: a reset releases it
}

// discoveryTimeout ends discovery controllers without a keep alive timer, which are not persistent, if their host
// sends no command for that long (NVMe base 2.0, 3.1.2.3).
const discoveryTimeout = 2 * time.Minute

// start begins the association.
func (c *Controller) start(kato uint32) {
	named(c)
	c.keep.Set(kato, c.now())
	if c.discovery() {
		c.keep.Fallback(discoveryTimeout, c.now())
	}
	c.armKeepAlive()
	c.recallLateness()
	fields := []zap.Field{zap.Stringer("peer", c.admin.remote), zap.Uint32("kato_ms", kato)}
	if c.keyed {
		fields = append(fields, zap.Bool("must_authenticate", true))
	}
	c.target.log.Comings.Write(c.log.Info, "host connected", fields)
	recordHostEvent(c, events.Connect, events.Info, "connected")
}

// named adds the controller's names to its logger. Called when its identifier is known.
func named(c *Controller) {
	c.log = c.target.log.With(
		zap.String("host", string(c.hostNQN)), zap.String("subsystem", string(c.subsystem.nqn)), zap.Uint16("cntlid", uint16(c.id)))
}

// setProperty executes Property Set.
func (c *Controller) setProperty(f capsule.Property) capsule.Status {
	before := c.props.CSTS
	t, status := c.props.Set(f)
	switch t {
	case state.TransitionEnable:
		c.keep.Restart(c.now())
		knowHealth(c)
		c.setReady(true)
	case state.TransitionReset:
		c.reset()
	case state.TransitionShutdown:
		c.beginShutdown()
	}
	if c.props.CSTS.Fatal() && !before.Fatal() {
		c.target.log.Troubles.Write(c.log.Warn, "controller not enabled: the host's configuration (CC) is not supported",
			[]zap.Field{zap.Uint64("cc", f.Value)})
	}
	return status
}

// reset handles CC.EN changing from 1 to 0: it ends I/O queues and aborts held requests. The admin queue and the
// properties that the host wrote stay.
func (c *Controller) reset() {
	cc := c.props.CC
	c.setReady(false)
	c.dropQueues(endReset)
	c.abortEvents()
	c.resetState()
	c.props.CC = cc
}

// abortEvents completes every held Asynchronous Event Request.
func (c *Controller) abortEvents() {
	for r, ok := c.events.TakeAny(); ok; r, ok = c.events.TakeAny() {
		r.finish(capsule.StatusAbortRequested | capsule.StatusDNR)
	}
}

// beginShutdown ends the I/O queues and flushes what was written; CSTS.SHST reports when that is complete (NVMe
// base 2.0, 3.6.2). An abrupt shutdown flushes nothing, and is complete when the queues have ended: to the host it
// means that no command can have an effect any more.
func (c *Controller) beginShutdown() {
	c.setReady(false)
	c.dropQueues(endShutdown)
	if c.discovery() {
		c.props.ShutdownDone()
		return
	}
	c.flushWhenDrained()
}

// raise adds an event, and reports it if the host has a request for it.
func (c *Controller) raise(bit uint32) {
	c.events.Raise(bit)
	c.report()
}

// report completes held Asynchronous Event Requests with pending events.
func (c *Controller) report() {
	for {
		r, e, ok := c.events.Next()
		if !ok {
			return
		}
		c.target.causes.Count(meter.AsyncEvents, "", eventNames[e.Type], "")
		r.result = uint64(e.Value())
		r.finish(capsule.StatusSuccess)
	}
}

// eventNames are the labels of asynchronous event types.
var eventNames = map[capsule.EventType]string{
	capsule.EventTypeError: "error", capsule.EventTypeSMART: "smart", capsule.EventTypeNotice: "notice", capsule.EventTypeIOSet: "reservation",
}

// armKeepAlive starts the timer, and the expiry from when the host was last heard.
func (c *Controller) armKeepAlive() {
	c.presence.arm()
	if !c.keep.Enabled() {
		c.expires.never()
		c.shard.StopTimer(&c.timer)
		return
	}
	c.presence.setExpiry(c.presence.noticed)
	c.setKeepAliveTimer()
}

// setKeepAliveTimer starts the timer. It fires before the expiry, also in the time after a takeover, in which a record
// of the other process determines the expiry: traffic since then must be noticed first.
func (c *Controller) setKeepAliveTimer() {
	left := time.Duration(max(c.keep.Next()-c.now(), 0))
	c.shard.SetTimer(&c.timer, min(left, max(c.expires.left(c.target.age())/2, time.Millisecond)))
}

// keepAliveDue ends the association if no queue has received a command since the timer was set, nor in the grace
// period after it (NVMe base 2.0, 3.9: traffic based keep alive). A host that has to authenticate first can send
// no Keep Alive, and may need long for its part of the exchange; another timeout limits that.
func (c *Controller) keepAliveDue() {
	if c.expires.passed(c.target.age()) {
		expire(c)
		return
	}
	switch c.presence.notice(); {
	case c.admin.auth.locked: // no command is executed
		c.presence.setExpiry(c.presence.noticed)
		fallthrough
	case c.presence.active:
		c.presence.active = false
		c.keep.Restart(c.now())
	case c.keep.Expired(c.now()) && !c.keep.Grace(c.now()):
		expire(c)
		return
	}
	c.setKeepAliveTimer()
}

// expire ends the association, since its host no longer responds.
func expire(c *Controller) {
	if c.expired {
		return
	}
	c.expired = true
	c.expires.over()
	c.target.log.Troubles.Write(c.log.Warn, "keep alive timeout expired, connection dropped",
		[]zap.Field{zap.Uint32("kato_ms", c.keep.Millis)})
	c.target.causes.Count(meter.KeepAlives, string(c.subsystem.nqn), "", "")
	c.props.Fail()
	c.end(endKeepAlive)
}

// sawTraffic reports whether a command of the host has arrived on any queue since the last call. Commands on a
// queue that has not authenticated count only once it has, since another host may have sent them.
func (c *Controller) sawTraffic() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.admin.traffic.Swap(false)
	for _, q := range c.queues {
		seen = q.traffic.Swap(false) || seen
	}
	return seen
}

// namespaceChanged raises the event for a changed namespace.
func (c *Controller) namespaceChanged(id capsule.NSID) {
	c.changed.Add(id)
	c.raise(capsule.EventNamespaceAttribute)
}
