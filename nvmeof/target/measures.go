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

// Latencies are counts of durations, in buckets.
type Latencies = latency.Histogram

// NamespaceMeasures are a namespace, and what the commands of hosts to it came to since it
// was added.
type NamespaceMeasures struct {
	NSID   capsule.NSID
	UUID   uuid.UUID
	Group  capsule.ANAGroup // that of Namespace.Group
	Ready  bool             // it is there, its store answers, and takes writes if it ever did; or another target serves it
	Paused bool             // see Namespace.Pause
	Silent bool             // its store has operations, or was asked what it is, and has answered nothing for 5 s
	Export string           // NamespaceConfig.Name, or its default; empty while it is away
	Kind   string           // the package of the store's type: memory, file or block; likewise
	Size   int64            // bytes, as hosts see it; 0 while hosts are not told
	Used   int64            // bytes that the store has allocated, all where it does not know; likewise
	// Spare is how much of what the store may still allocate its file system has left, from 0 to 1;
	// likewise. A preallocated store allocates nothing.
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

// SubsystemMeasures are a subsystem and its namespaces.
type SubsystemMeasures struct {
	NQN           nvmeof.NQN
	Serial, Model string
	AnyHost       bool
	Hosts         int                 // those that are allowed by name
	Namespaces    []NamespaceMeasures // by NSID
	Paths         []PathMeasures      // by listener, and group

	stray meter.Namespace
}

// Errors yields the statuses of I/O commands that failed before they had entered a namespace:
// that is not there, say, or not through this listener.
func (m *SubsystemMeasures) Errors() iter.Seq2[capsule.Status, uint64] { return errorsOf(&m.stray) }

// InFlight is how many commands have begun and were not answered yet.
func (m *NamespaceMeasures) InFlight() int { return m.total.InFlight }

// Bytes are the data of Reads, and of Writes, that succeeded.
func (m *NamespaceMeasures) Bytes() (read, written uint64) { return m.total.Read, m.total.Written }

// Kinds yields the kinds of commands of which there were any, by the name of each: read,
// write, flush, compare, zeroes, dsm, copy, verify, or other.
func (m *NamespaceMeasures) Kinds() iter.Seq2[string, KindMeasures] {
	return func(yield func(string, KindMeasures) bool) {
		for o := range meter.Ops {
			if command, store := m.total.Times(o); command != nil && !yield(o.String(), KindMeasures{command, store}) {
				return
			}
		}
	}
}

// KindMeasures are the times of commands of one kind. Each of them counts in Command, from
// the arrival of its capsule until its response was sent; Store is the part in which
// the namespace's store had it, for those that it had.
type KindMeasures struct{ Command, Store *Latencies }

// Errors yields the statuses with which commands failed, and how many with each. They are
// without Do Not Retry, and count in Kinds too.
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

// ShardMeasures are what a shard has done.
type ShardMeasures struct {
	Shard int           // its index among those of all devices
	Busy  time.Duration // the time that it had something to do
	Turns Latencies     // how long each turn took in which it had
	// FromHosts and ToHosts are how long the data of commands took: RDMA READs, and RDMA
	// WRITEs until the host had acknowledged them.
	FromHosts, ToHosts Latencies
}

// PathMeasures are how hosts reach the namespaces of a group through a listener.
type PathMeasures struct {
	Listener netip.AddrPort
	Group    capsule.ANAGroup
	State    capsule.ANAState
}

// paths are the states of the groups that have namespaces of the subsystem, at the listeners on
// which it is.
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

// Measures are what a target has counted of its work.
type Measures struct {
	Subsystems []SubsystemMeasures // by name
	Shards     []ShardMeasures     // by index
	Listeners  int                 // that are open
	Causes     map[Cause]uint64    // what happened to hosts, and why
}

// Measure reads the counters of all shards, which it wakes. None of them is held up for longer
// than the counters of a few namespaces take to be copied.
func (t *Target) Measure() Measures {
	var m Measures
	var all []measuring
	listeners := t.Listeners()
	for _, s := range t.Subsystems() {
		x := s.traits.Load()
		own := SubsystemMeasures{NQN: s.nqn, Serial: x.serial, Model: x.model, AnyHost: s.AnyHost(), Hosts: len(s.hosts.All())}
		table := s.namespaces.Load()
		own.Namespaces = make([]NamespaceMeasures, 0, table.Last()) // which all refers to
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

// A measuring is a namespace, and where to add its counters.
type measuring struct {
	namespace *storage.Namespace
	to        *NamespaceMeasures
}

// atOnce is how many namespaces' counters are copied in a turn of a shard.
const atOnce = 32

// measure adds what one shard has counted. One that has ended counts no more.
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

// LatencyBuckets are the upper bounds of Latencies.Buckets, of which the last has none.
func LatencyBuckets() []time.Duration { return latency.Bounds() }

// LatencyBounds are those of Latencies.Cumulative.
func LatencyBounds() []time.Duration { return latency.Classic() }

// LatencySchema is what the exponents of Latencies.Native mean: each is a bound of 2^(exponent/2^schema)
// seconds, and what is not above the first is under that.
func LatencySchema() (schema, first int) { return latency.Schema, latency.First }
