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

// Measures are counters of a target, which start at 0 with it and never decrease. A rate is the difference of two
// readings divided by that of UptimeNS.
type Measures struct {
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	UptimeNS   int64     `json:"uptime-ns"` // time of the reading
	Listeners  int       `json:"listeners"` // open listeners
	Subsystems int       `json:"subsystems"`
	// BoundsNS are the upper bounds of the buckets of all Latencies. The last bucket has none.
	BoundsNS    []int64             `json:"bounds-ns"`
	Namespaces  []NamespaceMeasures `json:"namespaces"`
	Controllers []Controller        `json:"controllers"`
	Shards      []ShardMeasures     `json:"shards"`
	Devices     []DeviceMeasures    `json:"devices"`
}

// NamespaceMeasures are the counters of a namespace.
type NamespaceMeasures struct {
	Subsystem    nvmeof.NQN        `json:"subsystem"`
	NSID         int               `json:"nsid"`
	Export       string            `json:"export"`
	Kind         string            `json:"kind"` // kind of store
	Size         int64             `json:"size"`
	Ready        bool              `json:"ready"`
	Paused       bool              `json:"paused,omitempty"`
	InFlight     int               `json:"in-flight"`
	ReadBytes    uint64            `json:"read-bytes"` // data of commands that succeeded
	WrittenBytes uint64            `json:"written-bytes"`
	Errors       uint64            `json:"errors"` // number of commands that failed
	Commands     []CommandMeasures `json:"commands"`
}

// CommandMeasures are the durations of commands of one kind: read, write, flush, compare, zeroes, dsm, copy,
// verify, or other. Command is from the arrival of the capsule until the response was sent. Store is the part of it
// in the store, for commands that reach the store.
type CommandMeasures struct {
	Op      string    `json:"op"`
	Command Latencies `json:"command"`
	Store   Latencies `json:"store"`
}

// Latencies is a histogram of durations.
type Latencies struct {
	SumNS int64 `json:"sum-ns"`
	// Buckets has the buckets that are not empty: the index in BoundsNS, and the count.
	Buckets [][2]uint64 `json:"buckets"`
}

// ShardMeasures are the counters of a shard.
type ShardMeasures struct {
	Shard  int       `json:"shard"`
	BusyNS int64     `json:"busy-ns"` // time with work
	Turns  Latencies `json:"turns"`   // turns of the loop with work
	// FromHosts and ToHosts are the durations of data transfers: of RDMA READs, and of RDMA WRITEs until the host
	// has acknowledged them.
	FromHosts Latencies `json:"from-hosts"`
	ToHosts   Latencies `json:"to-hosts"`
}

// DeviceMeasures are the counters of an RDMA device, if it has any.
type DeviceMeasures struct {
	Device   string                  `json:"device"`
	Counters []rdmatransport.Counter `json:"counters"`
}

// A gauge reads the counters. It does not wait for changes of the target.
type gauge struct {
	last    recent.Reading[*Measures]
	devices atomic.Pointer[map[string]rdmatransport.PacketCounter] // by device name
	sources atomic.Pointer[[]captureSource]                        // devices that can capture packets, sorted by name
}

// setDevices sets the open devices.
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

// ReadMeasures reads the counters of a Manager's target, at most once a second. The result is shared and must not
// be modified.
func ReadMeasures(m *Manager) *Measures { return recentMeasures(m) }

// recentMeasures implements ReadMeasures.
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

// measure reads the counters of the devices.
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
