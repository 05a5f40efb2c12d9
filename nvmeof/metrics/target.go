package metrics

import (
	"cmp"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TargetConfig configures [NewTarget]. A zero field selects the default.
type TargetConfig struct {
	Target  *target.Target // required
	Version string         // version of the program; default: that of its main module
	Started time.Time      // default: now
	// Devices returns the open devices of the target, whose counts of refused connection requests are exported.
	// Default: none.
	Devices func() []rdmatransport.Device
	// Histograms is the number of namespaces up to which each has its own histograms. If more have had commands,
	// there is one for each subsystem, with an empty nsid, which limits the number of series. Default 128.
	Histograms int
	// Hosts adds a series for each connected host. Since hosts come and go, these can become many.
	Hosts bool
	// Control yields the number of requests to the control API, and Log has the number of log lines by level.
	// Default: none.
	Control iter.Seq2[ControlRequest, uint64]
	Log     *LogCounter
}

// A ControlRequest identifies requests to the control API by kind and result.
type ControlRequest struct {
	Method, Route string
	Code          int // HTTP status code
}

const defaultHistograms = 128

type targetCollector struct {
	cfg TargetConfig
	*families
}

// NewTarget returns a collector for a target. Each target needs a registry of its own, or a label that
// [prometheus.WrapRegistererWith] adds. Without that, or without a Target, Gather fails.
func NewTarget(cfg TargetConfig) prometheus.Collector {
	if cfg.Target == nil {
		return missing("TargetConfig.Target")
	}
	if cfg.Started.IsZero() {
		cfg.Started = time.Now()
	}
	if cfg.Devices == nil {
		cfg.Devices = func() []rdmatransport.Device { return nil }
	}
	cfg.Histograms = cmp.Or(cfg.Histograms, defaultHistograms)
	return &targetCollector{cfg, newFamilies()}
}

// Describe implements prometheus.Collector. It sends nothing, since the set of series changes.
func (*targetCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *targetCollector) Collect(out chan<- prometheus.Metric) {
	to := sink(out)
	c.process(to)
	m := c.cfg.Target.Measure()
	to.put(c.listeners, float64(m.Listeners))
	each := used(&m) <= c.cfg.Histograms
	for i := range m.Subsystems {
		s := &m.Subsystems[i]
		nqn := string(s.NQN)
		to.put(c.subsystem, 1, nqn, s.Serial, s.Model, strconv.FormatBool(s.AnyHost))
		to.put(c.subsystemNamespaces, float64(len(s.Namespaces)), nqn)
		to.put(c.subsystemHosts, float64(s.Hosts), nqn)
		for j := range s.Namespaces {
			c.space(to, nqn, &s.Namespaces[j])
		}
		for status, k := range s.Errors() {
			to.count(c.errors, k, nqn, "", itoa(status.SCT()), itoa(status.SC()))
		}
		c.times(to, nqn, s.Namespaces, each)
		for _, p := range s.Paths {
			for x := range anaStates {
				to.flag(c.ana, x == p.State, nqn, p.Listener.String(), itoa(uint32(p.Group)), x.String())
			}
		}
	}
	var fromHosts, toHosts target.Latencies
	for i := range m.Shards {
		s := &m.Shards[i]
		at := itoa(s.Shard)
		to.put(c.shardBusy, s.Busy.Seconds(), at)
		to.latencies(c.shardLoop, &s.Turns, at)
		fromHosts.Add(&s.FromHosts)
		toHosts.Add(&s.ToHosts)
	}
	to.latencies(c.fabric, &fromHosts, "write")
	to.latencies(c.fabric, &toHosts, "read")
	c.connections(to)
	c.refusals(to)
	c.causes(to, m.Causes)
	c.own(to)
}

// causes adds the counters of what happened to hosts, by cause.
func (c *targetCollector) causes(to sink, all map[target.Cause]uint64) {
	for x, n := range all {
		switch x.Kind {
		case target.CauseConnect:
			to.count(c.connects, n, x.Cause)
		case target.CauseReject:
			to.count(c.rejects, n, x.Cause)
		case target.CauseDisconnect:
			to.count(c.disconnects, n, x.Cause, x.Detail)
		case target.CauseKeepAlive:
			to.count(c.keepAlives, n, x.Subsystem)
		case target.CauseAdmin:
			to.count(c.admin, n, x.Cause, x.Detail)
		case target.CauseAsyncEvent:
			to.count(c.asyncEvents, n, x.Cause)
		case target.CauseAbort:
			to.count(c.aborts, n, x.Cause)
		case target.CauseDiscovery:
			to.count(c.discoveries, n, x.Cause)
		case target.CauseReserve:
			to.count(c.reservations, n, x.Cause, x.Detail)
		case target.CauseANAChange:
			to.count(c.anaChanges, n, x.Detail, x.Cause)
		}
	}
}

// own adds what the program counts besides the target.
func (c *targetCollector) own(to sink) {
	if c.cfg.Control != nil {
		for r, n := range c.cfg.Control {
			to.count(c.control, n, r.Method, r.Route, itoa(r.Code))
		}
	}
	if c.cfg.Log != nil {
		for level, n := range c.cfg.Log.all() {
			to.put(c.log, float64(n), level)
		}
	}
}

func (c *targetCollector) process(to sink) {
	to.put(c.build, 1, buildOf(c.cfg.Version)...)
	to.put(c.start, float64(c.cfg.Started.UnixMilli())/1e3)
}

func (c *targetCollector) space(to sink, nqn string, n *target.NamespaceMeasures) {
	id := itoa(uint32(n.NSID))
	to.put(c.namespace, 1, nqn, id, n.UUID.String(), n.Kind, strings.ToValidUTF8(n.Export, "\uFFFD"), itoa(uint32(n.Group)))
	to.put(c.size, float64(n.Size), nqn, id)
	to.put(c.used, float64(n.Used), nqn, id)
	to.put(c.spare, n.Spare, nqn, id)
	to.flag(c.ready, n.Ready, nqn, id)
	to.put(c.inFlight, float64(n.InFlight()), nqn, id)
	for op, k := range n.Kinds() {
		to.put(c.commands, float64(k.Command.Count()), nqn, id, op)
	}
	read, written := n.Bytes()
	to.count(c.bytes, read, nqn, id, "read")
	to.count(c.bytes, written, nqn, id, "write")
	for status, k := range n.Errors() {
		if status == capsule.StatusReservationConflict {
			to.count(c.conflicts, k, nqn, id)
		}
		to.count(c.errors, k, nqn, id, itoa(status.SCT()), itoa(status.SC()))
	}
	if n.Reservation.Type != capsule.ReservationNone {
		to.put(c.reservation, 1, nqn, id, n.Reservation.Type.String())
	}
	if k := len(n.Reservation.Registrants); k > 0 {
		to.put(c.registrants, float64(k), nqn, id)
	}
}

// used returns how many namespaces have had commands.
func used(m *target.Measures) (n int) {
	for i := range m.Subsystems {
		for j := range m.Subsystems[i].Namespaces {
			for range m.Subsystems[i].Namespaces[j].Kinds() {
				n++
				break
			}
		}
	}
	return n
}

// times adds the histograms of a subsystem's namespaces: one for each if each is set, else one for all.
func (c *targetCollector) times(to sink, nqn string, all []target.NamespaceMeasures, each bool) {
	type both struct{ command, store target.Latencies }
	sums := map[string]*both{}
	for i := range all {
		for op, k := range all[i].Kinds() {
			if each {
				id := itoa(uint32(all[i].NSID))
				to.latencies(c.duration, k.Command, nqn, id, op)
				to.latencies(c.backend, k.Store, nqn, id, op)
				continue
			}
			if sums[op] == nil {
				sums[op] = new(both)
			}
			sums[op].command.Add(k.Command)
			sums[op].store.Add(k.Store)
		}
	}
	for op, s := range sums {
		to.latencies(c.duration, &s.command, nqn, "", op)
		to.latencies(c.backend, &s.store, nqn, "", op)
	}
}

// connections adds the number of connected controllers, queues and hosts.
func (c *targetCollector) connections(to sink) {
	type key struct {
		nqn  nvmeof.NQN
		kind string
	}
	type host struct {
		nqn, name nvmeof.NQN
		at        netip.Addr
	}
	hosts := map[host]bool{}
	there, queues := map[key]int{}, 0
	all := c.cfg.Target.Controllers()
	for i := range all {
		kind := "io"
		if all[i].Discovery {
			kind = "discovery"
		}
		there[key{all[i].Subsystem, kind}]++
		hosts[host{all[i].Subsystem, all[i].HostNQN, all[i].Peer}] = true
		queues += len(all[i].Queues)
	}
	if c.cfg.Hosts {
		for h := range hosts {
			to.put(c.hosts, 1, string(h.nqn), string(h.name), h.at.String())
		}
	}
	for k, n := range there {
		to.put(c.controllers, float64(n), string(k.nqn), k.kind)
	}
	to.put(c.queues, float64(len(all)), "admin")
	to.put(c.queues, float64(queues), "io")
}

// refusals adds the counters of connections and hosts that the target refused or dropped.
func (c *targetCollector) refusals(to sink) {
	t := c.cfg.Target
	a := t.AuthCounts()
	for result, n := range map[string]uint64{"succeeded": a.Succeeded, "failed": a.Failed, "timed_out": a.TimedOut, "refused": a.Refused, "interrupted": a.Interrupted, "abandoned": a.Abandoned} {
		to.put(c.auth, float64(n), result)
	}
	d := t.AdmissionCounts()
	for reason, n := range map[string]uint64{"gave_way": d.GaveWay, "address_limit": d.Refused, "silent": d.Silent, "memory": d.Memory} {
		to.put(c.admission, float64(n), reason)
	}
	l := t.ControllerCounts()
	for result, n := range map[string]uint64{"refused": l.Refused, "displaced": l.Displaced, "unanswered": l.Unanswered} {
		to.put(c.limits, float64(n), result)
	}
	to.put(c.undelivered, float64(t.Undelivered()))
	to.put(c.slowed, float64(t.Slowed()))
	var r rdmatransport.RefusedRequests
	for _, dev := range c.cfg.Devices() {
		if counter, ok := dev.(rdmatransport.RequestCounter); ok {
			n := counter.RefusedRequests()
			r.TooMany += n.TooMany
			r.Backlog += n.Backlog
			r.HalfOpen += n.HalfOpen
		}
	}
	for reason, n := range map[string]uint64{"rate": r.TooMany, "backlog": r.Backlog, "half_open": r.HalfOpen} {
		to.put(c.requests, float64(n), reason)
	}
}
