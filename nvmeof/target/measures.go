package target

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// Latencies is a histogram of durations.
type Latencies = latency.Histogram

// NamespaceMeasures describes a namespace, and counts the commands of hosts to it since it was added.
type NamespaceMeasures struct {
	NSID   capsule.NSID
	UUID   uuid.UUID
	Group  capsule.ANAGroup // that of Namespace.Group
	Ready  bool             // its store answers, and accepts writes if it ever did; or another target serves it
	Paused bool             // see Namespace.Pause
	Silent bool             // its store has operations, or was queried, and has answered nothing for 5 s
	Export string           // NamespaceConfig.Name, or its default; empty while it is away
	Kind   string           // the package of the store's type: memory, file or block; empty while it is away
	Size   int64            // in bytes, as hosts see it; 0 while hosts do not see it
	Used   int64            // bytes that the store has allocated, or Size if it does not know; 0 while it is away
	// Spare is the free space of the store's file system, relative to what the store may still allocate, from 0 to
	// 1; 0 while it is away. A preallocated store allocates nothing.
	Spare float64

	Reservation Reservation

	total meter.Namespace
}

func (m *NamespaceMeasures) describe(n *storage.Namespace) {
	m.NSID, m.UUID, m.Group, m.Paused = n.ID, n.UUID, n.Group(), n.Paused()
	v := n.Volume
	if v == nil {
		m.Ready = n.Elsewhere()
		if s, known := n.Shape(); known {
			m.Size = int64(s.Bytes())
		}
		return
	}
	h := v.Health.Load()
	_, silent := v.Silent(time.Now())
	m.Silent = silent
	m.Ready = !silent && !h.Failed && h.Lost == "" && h.Cut == ""
	m.Export, m.Kind = v.Name, v.Kind()
	m.Spare = float64(h.Spare) / 100
	m.Size, m.Used = int64(v.Bytes()), int64(v.Used())<<v.Shift
}

// SubsystemMeasures describes a subsystem and its namespaces.
type SubsystemMeasures struct {
	NQN           nvmeof.NQN
	Serial, Model string
	AnyHost       bool
	Hosts         int                 // number of hosts with an entry
	Namespaces    []NamespaceMeasures // by NSID
	Paths         []PathMeasures      // by listener and group

	stray meter.Namespace
}

// Errors yields the statuses of I/O commands that failed before they entered a namespace, for example because it
// does not exist or is not accessible through the listener, and how many failed with each.
func (m *SubsystemMeasures) Errors() iter.Seq2[capsule.Status, uint64] { return errorsOf(&m.stray) }

// InFlight returns how many commands have begun and have not completed.
func (m *NamespaceMeasures) InFlight() int { return m.total.InFlight }

// Bytes returns how many bytes successful Reads and Writes have transferred.
func (m *NamespaceMeasures) Bytes() (read, written uint64) { return m.total.Read, m.total.Written }

// Kinds yields the kinds of commands that have occurred, by name: read, write, flush, compare, zeroes, dsm, copy,
// verify, or other.
func (m *NamespaceMeasures) Kinds() iter.Seq2[string, KindMeasures] {
	return func(yield func(string, KindMeasures) bool) {
		for o := range meter.Ops {
			if command, store := m.total.Times(o); command != nil && !yield(o.String(), KindMeasures{command, store}) {
				return
			}
		}
	}
}

// KindMeasures has the times of commands of one kind. Command covers each of them from the arrival of its capsule
// until its response was sent. Store is the part during which the namespace's store had it, for those that were
// submitted to the store.
type KindMeasures struct{ Command, Store *Latencies }

// Errors yields the statuses with which commands failed, and how many failed with each. The statuses have no Do
// Not Retry bit. The commands count in Kinds too.
func (m *NamespaceMeasures) Errors() iter.Seq2[capsule.Status, uint64] { return errorsOf(&m.total) }

func errorsOf(n *meter.Namespace) iter.Seq2[capsule.Status, uint64] {
	return func(yield func(capsule.Status, uint64) bool) {
		for _, f := range n.Errors() {
			if !yield(f.Status, f.N) {
				return
			}
		}
	}
}

// ShardMeasures has the counters of a shard.
type ShardMeasures struct {
	Shard int           // its index among those of all devices
	Busy  time.Duration // how long it was busy
	Turns Latencies     // durations of the turns in which it was busy
	// FromHosts and ToHosts are how long transfers of commands' data took: of RDMA READs, and of RDMA WRITEs until
	// the host had acknowledged them.
	FromHosts, ToHosts Latencies
}

// PathMeasures has the ANA state of a group at a listener.
type PathMeasures struct {
	Listener netip.AddrPort
	Group    capsule.ANAGroup
	State    capsule.ANAState
}

// paths appends the states of the groups that have namespaces of the subsystem, at the listeners on which it is
// exposed.
func (m *SubsystemMeasures) paths(s *Subsystem, listeners []*Listener) {
	var groups []capsule.ANAGroup
	for i := range m.Namespaces {
		groups = append(groups, m.Namespaces[i].Group)
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	ports := s.ports.Load()
	for _, l := range listeners {
		if !exposedOn(ports, l.port.id) {
			continue
		}
		for _, g := range groups {
			m.Paths = append(m.Paths, PathMeasures{l.Addr(), g, l.ANAState(g)})
		}
	}
}

// Measures has the counters of a target.
type Measures struct {
	Subsystems []SubsystemMeasures // by name
	Shards     []ShardMeasures     // by index
	Listeners  int                 // number of open listeners
	Causes     map[Cause]uint64    // occurrences other than I/O commands
}

// Measure reads the counters of all shards, which it wakes. It delays each of them only for the time to copy the
// counters of a few namespaces.
func (t *Target) Measure() Measures {
	var m Measures
	var all []measuring
	listeners := t.Listeners()
	for _, s := range t.Subsystems() {
		x := s.traits.Load()
		own := SubsystemMeasures{NQN: s.nqn, Serial: x.serial, Model: x.model, AnyHost: s.AnyHost(), Hosts: len(s.hosts.All())}
		table := s.namespaces.Load()
		own.Namespaces = make([]NamespaceMeasures, 0, table.Last()) // not reallocated: all points into it
		for n := range table.Listed {
			own.Namespaces = append(own.Namespaces, NamespaceMeasures{})
			to := &own.Namespaces[len(own.Namespaces)-1]
			to.describe(n)
			to.Reservation = (&Namespace{subsystem: s, ns: n}).Reservation()
			all = append(all, measuring{n, to})
		}
		own.paths(s, listeners)
		m.Subsystems = append(m.Subsystems, own)
	}
	t.mu.Lock()
	devices := t.devices
	t.mu.Unlock()
	m.Listeners = len(listeners)
	for _, d := range devices {
		for _, w := range d.workers {
			w.measure(&m, all)
		}
	}
	m.Causes = t.causes.All()
	slices.SortFunc(m.Shards, func(a, b ShardMeasures) int { return cmp.Compare(a.Shard, b.Shard) })
	return m
}

// A measuring is a namespace, and the place to add its counters.
type measuring struct {
	namespace *storage.Namespace
	to        *NamespaceMeasures
}

// atOnce is how many namespaces' counters are copied in a turn of a shard.
const atOnce = 32

// measure adds the counters of one shard. A shard that has ended adds none.
func (w *worker) measure(m *Measures, all []measuring) {
	s := ShardMeasures{Shard: int(w.lanes.Index)}
	if w.shard.Call(func() {
		stats := w.shard.Stats()
		s.Busy, s.Turns = stats.Busy, stats.Loop
		s.FromHosts, s.ToHosts = w.turn.FromHosts, w.turn.ToHosts
		for i := range m.Subsystems {
			if n := w.strays[m.Subsystems[i].NQN]; n != nil {
				m.Subsystems[i].stray.Add(n)
			}
		}
	}) != nil {
		return
	}
	m.Shards = append(m.Shards, s)
	for some := range slices.Chunk(all, atOnce) {
		_ = w.shard.Call(func() {
			for _, x := range some {
				if g := x.namespace.Gate(w.lanes.Index); g != nil {
					x.to.total.Add(&g.Meter)
				}
			}
		})
	}
}

// LatencyBuckets returns the upper bounds of Latencies.Buckets, of which the last has none.
func LatencyBuckets() []time.Duration { return latency.Bounds() }

// LatencyBounds returns the upper bounds of Latencies.Cumulative.
func LatencyBounds() []time.Duration { return latency.Classic() }

// LatencySchema returns the meaning of the exponents of Latencies.Native: each is a bound of 2^(exponent/2^schema)
// seconds. Durations of at most the first bound are counted at first.
func LatencySchema() (schema, first int) { return latency.Schema, latency.First }
