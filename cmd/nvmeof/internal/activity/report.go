package activity

import (
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Report is the activity of a target between two readings.
type Report struct {
	PID         int          `json:"pid"`
	Started     time.Time    `json:"started"`
	Uptime      float64      `json:"uptime-seconds"`
	Seconds     float64      `json:"seconds"` // between the readings, or since the target was started
	SinceStart  bool         `json:"since-start,omitempty"`
	Listeners   int          `json:"listeners"`
	Subsystems  int          `json:"subsystems"`
	Total       Total        `json:"total"`
	Namespaces  []Namespace  `json:"namespaces"`
	Hosts       []Host       `json:"hosts"`
	Controllers []Controller `json:"controllers"`
	Shards      []Shard      `json:"shards"`
	Transport   []Counter    `json:"transport"`
}

// Rates are per second. Bytes are those of commands that succeeded.
type Rates struct {
	IOPS         float64 `json:"iops"`
	ReadBytes    float64 `json:"read-bytes-per-second"`
	WrittenBytes float64 `json:"written-bytes-per-second"`
}

// Latency is a distribution of durations.
type Latency struct {
	Count uint64        `json:"count"`
	Mean  time.Duration `json:"mean-ns"`
	P50   time.Duration `json:"p50-ns"`
	P99   time.Duration `json:"p99-ns"`
}

// Total is the activity of the whole target.
type Total struct {
	Rates
	Errors   float64 `json:"errors-per-second"`
	InFlight int     `json:"in-flight"`
	NotReady int     `json:"not-ready"` // namespaces
	Busy     float64 `json:"busy"`      // sum of the shards, each 1 at most
	Command  Latency `json:"command"`   // from the arrival of a command until its response was sent
	Store    Latency `json:"store"`     // the part during which the store had it
	// FromHosts and ToHosts are the durations of data transfers over the fabric: of RDMA READs, and of RDMA WRITEs
	// until they were acknowledged.
	FromHosts Latency `json:"from-hosts"`
	ToHosts   Latency `json:"to-hosts"`
}

// A Namespace is a namespace and its commands.
type Namespace struct {
	Subsystem nvmeof.NQN `json:"subsystem"`
	NSID      int        `json:"nsid"`
	Export    string     `json:"export"`
	Kind      string     `json:"kind"`
	Size      int64      `json:"size"`
	Ready     bool       `json:"ready"`
	Paused    bool       `json:"paused,omitempty"`
	InFlight  int        `json:"in-flight"`
	Rates
	Errors   float64   `json:"errors-per-second"`
	Command  Latency   `json:"command"`
	Store    Latency   `json:"store"`
	Commands []Command `json:"commands"` // by kind; kinds without commands are omitted
}

// A Command is a kind of command.
type Command struct {
	Op      string  `json:"op"`
	IOPS    float64 `json:"iops"`
	Command Latency `json:"command"`
	Store   Latency `json:"store"`
}

// A Host is the sum of a host's controllers. Commands of hosts are counted when they arrive, and are not timed.
type Host struct {
	Host        nvmeof.NQN `json:"host"`
	Peers       []string   `json:"peers"`
	Controllers int        `json:"controllers"`
	Queues      int        `json:"queues"`
	InFlight    uint64     `json:"in-flight"`
	Rates
}

// A Controller is a host's association.
type Controller struct {
	Subsystem     nvmeof.NQN `json:"subsystem"`
	ID            int        `json:"id"`
	Discovery     bool       `json:"discovery,omitempty"`
	Host          nvmeof.NQN `json:"host"`
	Peer          string     `json:"peer"`
	Listener      int        `json:"listener"`
	Authenticated bool       `json:"authenticated"`
	Connected     time.Time  `json:"connected"`
	Age           float64    `json:"age-seconds"`
	Queues        int        `json:"queues"`
	Depth         int        `json:"depth"`
	InFlight      uint64     `json:"in-flight"`
	Rates
}

// A Shard is a thread of the data path.
type Shard struct {
	Shard     int     `json:"shard"`
	Busy      float64 `json:"busy"` // fraction of the time during which it was busy
	Queues    int     `json:"queues"`
	IOPS      float64 `json:"iops"`
	Turns     float64 `json:"turns-per-second"` // turns with work
	Turn      Latency `json:"turn"`
	FromHosts Latency `json:"from-hosts"`
	ToHosts   Latency `json:"to-hosts"`
}

// A Counter is a counter of an RDMA device.
type Counter struct {
	Device string  `json:"device"`
	Name   string  `json:"name"`
	Rate   float64 `json:"per-second"`
	Total  uint64  `json:"total"`
}

// Counted returns the sum of the rates of all counters with a prefix.
func (r *Report) Counted(prefix string) (rate float64) {
	for i := range r.Transport {
		if strings.HasPrefix(r.Transport[i].Name, prefix) {
			rate += r.Transport[i].Rate
		}
	}
	return rate
}
