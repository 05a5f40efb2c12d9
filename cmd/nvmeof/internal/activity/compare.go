package activity

import (
	"cmp"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// Compare makes a report from two readings. If before is nil, or the target was restarted after it, the report covers
// the time since the start.
func Compare(before, now *control.Measures) *Report {
	if before == nil || before.PID != now.PID || !before.Started.Equal(now.Started) || before.UptimeNS >= now.UptimeNS {
		before = &control.Measures{PID: now.PID}
	}
	c := comparison{before: before, now: now, bounds: now.BoundsNS, seconds: time.Duration(now.UptimeNS - before.UptimeNS).Seconds()}
	r := &Report{PID: now.PID, Started: now.Started, Uptime: time.Duration(now.UptimeNS).Seconds(), Seconds: c.seconds, SinceStart: before.UptimeNS == 0,
		Listeners: now.Listeners, Subsystems: now.Subsystems}
	c.namespaces(r)
	c.controllers(r)
	c.shards(r)
	c.transport(r)
	return r
}

type comparison struct {
	before, now *control.Measures
	bounds
	seconds float64
}

// per returns a rate per second. A counter that went back has restarted, for example because a queue was connected
// again.
func (c *comparison) per(now, before uint64) float64 {
	if now < before {
		before = 0
	}
	if c.seconds <= 0 {
		return 0
	}
	return float64(now-before) / c.seconds
}

// by indexes a list by a key, to match the elements of two readings.
func by[K comparable, T any](list []T, key func(*T) K) map[K]*T {
	out := make(map[K]*T, len(list))
	for i := range list {
		out[key(&list[i])] = &list[i]
	}
	return out
}

// orNew returns an element of an index, or one whose counters are zero.
func orNew[K comparable, T any](m map[K]*T, key K) *T {
	if x := m[key]; x != nil {
		return x
	}
	return new(T)
}

type spaceKey struct {
	subsystem nvmeof.NQN
	nsid      int
}

func (c *comparison) namespaces(r *Report) {
	key := func(n *control.NamespaceMeasures) spaceKey { return spaceKey{n.Subsystem, n.NSID} }
	before := by(c.before.Namespaces, key)
	r.Namespaces = make([]Namespace, 0, len(c.now.Namespaces))
	var command, store control.Latencies
	for i := range c.now.Namespaces {
		n := &c.now.Namespaces[i]
		x, all, stored := c.namespace(n, orNew(before, key(n)))
		command, store = add(command, all), add(store, stored)
		t := &r.Total
		t.add(&x.Rates)
		t.Errors += x.Errors
		t.InFlight += x.InFlight
		if !x.Ready {
			t.NotReady++
		}
		r.Namespaces = append(r.Namespaces, x)
	}
	r.Total.Command, r.Total.Store = c.latency(command), c.latency(store)
}

func (r *Rates) add(o *Rates) {
	r.IOPS += o.IOPS
	r.ReadBytes += o.ReadBytes
	r.WrittenBytes += o.WrittenBytes
}

func (c *comparison) namespace(n, was *control.NamespaceMeasures) (x Namespace, all, stored control.Latencies) {
	x = Namespace{Subsystem: n.Subsystem, NSID: n.NSID, Export: n.Export, Kind: n.Kind, Size: n.Size, Ready: n.Ready, Paused: n.Paused, InFlight: n.InFlight, Commands: []Command{}}
	x.ReadBytes, x.WrittenBytes, x.Errors = c.per(n.ReadBytes, was.ReadBytes), c.per(n.WrittenBytes, was.WrittenBytes), c.per(n.Errors, was.Errors)
	before := by(was.Commands, func(k *control.CommandMeasures) string { return k.Op })
	for i := range n.Commands {
		k := &n.Commands[i]
		b := orNew(before, k.Op)
		command, store := sub(k.Command, b.Command), sub(k.Store, b.Store)
		if len(command.Buckets) == 0 {
			continue
		}
		rate := c.per(count(command), 0)
		x.IOPS += rate
		x.Commands = append(x.Commands, Command{k.Op, rate, c.latency(command), c.latency(store)})
		all, stored = add(all, command), add(stored, store)
	}
	x.Command, x.Store = c.latency(all), c.latency(stored)
	return x, all, stored
}

type controllerKey struct {
	subsystem nvmeof.NQN
	id        int
	hostID    string
}

func (c *comparison) controllers(r *Report) {
	key := func(x *control.Controller) controllerKey { return controllerKey{x.Subsystem, x.ID, x.HostID} }
	before := by(c.before.Controllers, key)
	hosts := map[nvmeof.NQN]*Host{}
	r.Controllers, r.Hosts = []Controller{}, []Host{}
	for i := range c.now.Controllers {
		x := c.controller(&c.now.Controllers[i], orNew(before, key(&c.now.Controllers[i])))
		r.Controllers = append(r.Controllers, x)
		h := hosts[x.Host]
		if h == nil {
			h = &Host{Host: x.Host}
			hosts[x.Host] = h
		}
		h.Controllers++
		h.Queues += x.Queues
		h.InFlight += x.InFlight
		h.add(&x.Rates)
		if !slices.Contains(h.Peers, x.Peer) {
			h.Peers = append(h.Peers, x.Peer)
		}
	}
	for _, h := range hosts {
		r.Hosts = append(r.Hosts, *h)
	}
	slices.SortFunc(r.Hosts, func(a, b Host) int { return cmp.Compare(a.Host, b.Host) })
}

func (c *comparison) controller(n, was *control.Controller) Controller {
	age := c.now.Started.Add(time.Duration(c.now.UptimeNS)).Sub(n.Connected)
	x := Controller{Subsystem: n.Subsystem, ID: n.ID, Discovery: n.Discovery, Host: n.Host, Peer: n.Peer, Listener: n.Listener, Authenticated: n.Authenticated,
		Connected: n.Connected, Age: max(age, 0).Seconds(), Queues: len(n.Queues)}
	before := by(was.Queues, func(q *control.Queue) int { return q.ID })
	for i := range n.Queues {
		q := &n.Queues[i]
		b := orNew(before, q.ID)
		if q.Commands < b.Commands { // of an earlier connection
			b = new(control.Queue)
		}
		x.Depth = max(x.Depth, q.Depth)
		x.InFlight += q.InFlight
		x.add(&Rates{c.per(q.Commands, b.Commands), c.per(q.ReadBytes, b.ReadBytes), c.per(q.WrittenBytes, b.WrittenBytes)})
	}
	return x
}

func (c *comparison) shards(r *Report) {
	before := by(c.before.Shards, func(s *control.ShardMeasures) int { return s.Shard })
	queues, commands := c.queues()
	r.Shards = []Shard{}
	var from, to control.Latencies
	for i := range c.now.Shards {
		s := &c.now.Shards[i]
		b := orNew(before, s.Shard)
		turns, in, out := sub(s.Turns, b.Turns), sub(s.FromHosts, b.FromHosts), sub(s.ToHosts, b.ToHosts)
		busy := c.per(uint64(max(s.BusyNS, 0)), uint64(max(b.BusyNS, 0))) / float64(time.Second)
		r.Shards = append(r.Shards, Shard{s.Shard, busy, queues[s.Shard], commands[s.Shard], c.per(count(turns), 0), c.latency(turns), c.latency(in), c.latency(out)})
		r.Total.Busy += busy
		from, to = add(from, in), add(to, out)
	}
	r.Total.FromHosts, r.Total.ToHosts = c.latency(from), c.latency(to)
}

// queues returns the number of queues of each shard, and the rate of their commands.
func (c *comparison) queues() (n map[int]int, rate map[int]float64) {
	type key struct {
		controllerKey
		queue int
	}
	n, rate = map[int]int{}, map[int]float64{}
	before := map[key]uint64{}
	for i := range c.before.Controllers {
		x := &c.before.Controllers[i]
		for _, q := range x.Queues {
			before[key{controllerKey{x.Subsystem, x.ID, x.HostID}, q.ID}] = q.Commands
		}
	}
	for i := range c.now.Controllers {
		x := &c.now.Controllers[i]
		for _, q := range x.Queues {
			n[q.Shard]++
			rate[q.Shard] += c.per(q.Commands, before[key{controllerKey{x.Subsystem, x.ID, x.HostID}, q.ID}])
		}
	}
	return n, rate
}

func (c *comparison) transport(r *Report) {
	type key struct{ device, name string }
	before := map[key]uint64{}
	for _, d := range c.before.Devices {
		for _, n := range d.Counters {
			before[key{d.Device, n.Name}] = n.N
		}
	}
	r.Transport = []Counter{}
	for _, d := range c.now.Devices {
		for _, n := range d.Counters {
			r.Transport = append(r.Transport, Counter{d.Device, n.Name, c.per(n.N, before[key{d.Device, n.Name}]), n.N})
		}
	}
}
