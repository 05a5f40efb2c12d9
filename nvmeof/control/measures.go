package control

import (
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/recent"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Measures are the counters of a target, which begin with it and never go back. Whoever wants
// rates compares two readings: the time between them is the difference of UptimeNS.
type Measures struct {
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	UptimeNS   int64     `json:"uptime-ns"` // when this was read
	Listeners  int       `json:"listeners"` // that are open
	Subsystems int       `json:"subsystems"`
	// BoundsNS are the upper bounds of the buckets of all Latencies; the last bucket has none.
	BoundsNS    []int64             `json:"bounds-ns"`
	Namespaces  []NamespaceMeasures `json:"namespaces"`
	Controllers []Controller        `json:"controllers"`
	Shards      []ShardMeasures     `json:"shards"`
	Devices     []DeviceMeasures    `json:"devices"`
}

// NamespaceMeasures are a namespace and what its commands came to.
type NamespaceMeasures struct {
	Subsystem    nvmeof.NQN        `json:"subsystem"`
	NSID         int               `json:"nsid"`
	Export       string            `json:"export"`
	Kind         string            `json:"kind"` // of the store
	Size         int64             `json:"size"`
	Ready        bool              `json:"ready"`
	Paused       bool              `json:"paused,omitempty"`
	InFlight     int               `json:"in-flight"`
	ReadBytes    uint64            `json:"read-bytes"` // of commands that succeeded
	WrittenBytes uint64            `json:"written-bytes"`
	Errors       uint64            `json:"errors"` // commands that failed
	Commands     []CommandMeasures `json:"commands"`
}

// CommandMeasures are the times of commands of one kind: read, write, flush, compare, zeroes, dsm,
// copy, verify, or other. Command is from the arrival of the capsule until the response was sent;
// Store is the part in which the store had it, for commands that it had.
type CommandMeasures struct {
	Op      string    `json:"op"`
	Command Latencies `json:"command"`
	Store   Latencies `json:"store"`
}

// Latencies are counts of durations.
type Latencies struct {
	SumNS int64 `json:"sum-ns"`
	// Buckets are those that have any: the index of each in BoundsNS, and how many it has.
	Buckets [][2]uint64 `json:"buckets"`
}

// ShardMeasures are what a shard has done.
type ShardMeasures struct {
	Shard  int       `json:"shard"`
	BusyNS int64     `json:"busy-ns"` // in which it had something to do
	Turns  Latencies `json:"turns"`   // in which it had
	// FromHosts and ToHosts are how long the data of commands took: RDMA READs, and RDMA WRITEs until
	// the host had acknowledged them.
	FromHosts Latencies `json:"from-hosts"`
	ToHosts   Latencies `json:"to-hosts"`
}

// DeviceMeasures are the counters of an RDMA device, if it has any.
type DeviceMeasures struct {
	Device   string                  `json:"device"`
	Counters []rdmatransport.Counter `json:"counters"`
}

// A gauge is where the counters are read. It waits for no change that is being made to the target.
type gauge struct {
	last    recent.Reading[*Measures]
	devices atomic.Pointer[map[string]rdmatransport.PacketCounter] // by name
	sources atomic.Pointer[[]captureSource]                        // those that can capture packets, by name
}

// setDevices says which devices there are.
func (g *gauge) setDevices(all map[string]*heldDevice) {
	there := map[string]rdmatransport.PacketCounter{}
	for name, d := range all {
		if c, ok := d.rdma.(rdmatransport.PacketCounter); ok {
			there[name] = c
		}
	}
	g.devices.Store(&there)
	g.setSources(all)
}

// ReadMeasures reads the counters of a Manager's target, once a second at most. Nobody may change what
// it returns.
func ReadMeasures(m *Manager) *Measures { return recentMeasures(m) }

// recentMeasures reads the counters, once a second at most. Nobody may change them.
func recentMeasures(m *Manager) *Measures {
	x, _ := m.gauge.last.Get(func() (*Measures, error) { return measure(m), nil })
	return x
}

func measure(m *Manager) *Measures {
	all := m.target.Measure()
	out := &Measures{PID: os.Getpid(), Started: m.started, UptimeNS: int64(time.Since(m.started)), Listeners: all.Listeners, Subsystems: len(all.Subsystems),
		Namespaces: []NamespaceMeasures{}, Controllers: m.Controllers(), Shards: []ShardMeasures{}, Devices: m.gauge.measure()}
	for _, b := range target.LatencyBuckets() {
		out.BoundsNS = append(out.BoundsNS, int64(b))
	}
	for i := range all.Subsystems {
		s := &all.Subsystems[i]
		for j := range s.Namespaces {
			out.Namespaces = append(out.Namespaces, namespaceMeasures(s.NQN, &s.Namespaces[j]))
		}
	}
	for i := range all.Shards {
		s := &all.Shards[i]
		out.Shards = append(out.Shards, ShardMeasures{s.Shard, int64(s.Busy), latencies(&s.Turns), latencies(&s.FromHosts), latencies(&s.ToHosts)})
	}
	return out
}

// measure reads what the devices have counted.
func (g *gauge) measure() []DeviceMeasures {
	out := []DeviceMeasures{}
	if there := g.devices.Load(); there != nil {
		for _, name := range slices.Sorted(maps.Keys(*there)) {
			out = append(out, DeviceMeasures{name, (*there)[name].Counters()})
		}
	}
	return out
}

func namespaceMeasures(nqn nvmeof.NQN, n *target.NamespaceMeasures) NamespaceMeasures {
	out := NamespaceMeasures{Subsystem: nqn, NSID: int(n.NSID), Export: n.Export, Kind: n.Kind, Size: n.Size, Ready: n.Ready, Paused: n.Paused,
		InFlight: n.InFlight(), Commands: []CommandMeasures{}}
	out.ReadBytes, out.WrittenBytes = n.Bytes()
	for _, k := range n.Errors() {
		out.Errors += k
	}
	for op, k := range n.Kinds() {
		out.Commands = append(out.Commands, CommandMeasures{op, latencies(k.Command), latencies(k.Store)})
	}
	return out
}

func latencies(h *target.Latencies) Latencies {
	out := Latencies{int64(h.Sum()), [][2]uint64{}}
	for i, n := range h.Buckets {
		out.Buckets = append(out.Buckets, [2]uint64{uint64(i), n})
	}
	return out
}
