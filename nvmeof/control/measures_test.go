package control

import (
	"bytes"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

var measured = flag.Int("namespaces", 30, "how many TestMeasures has")

const measuredConfig = "version: 1\nlisteners:\n  - {id: 1, address: \"ADDR:4420\"}\nsubsystems:\n" +
	"  - nqn: a\n    allow-any-host: true\n    namespaces:\n      - {nsid: 1, memory: {size: 1MiB}}\n"

// TestMeasures: commands of hosts are in the next reading, which does not wait for changes of the target. On an
// idle machine, a reading of 10,000 namespaces that have had commands (-namespaces 10000 -v) takes less than half a
// second, including its text.
func TestMeasures(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	if _, err := r.Apply(r.doc(measuredConfig), Options{}); err != nil {
		t.Fatal(err)
	}
	h := newReturner(r.rig)
	began := time.Now()
	for _, nqn := range r.fill(*measured) {
		h.options.NQN = nqn
		c, err := h.connect(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, c)
		if nqn != "a" {
			_ = c.Disconnect(t.Context())
		}
	}
	r.mu.Lock() // like a change that waits for a store
	defer r.mu.Unlock()
	at := time.Now()
	text := encode(measure(r.Manager))
	took := time.Since(at)
	t.Logf("%d namespaces: %v, %d bytes", *measured, took, len(text))
	if perSpace := took / time.Duration(*measured); perSpace > 10*time.Millisecond { // far above the usual time
		t.Errorf("%v for each namespace", perSpace)
	}
	var m Measures
	r.do("GET", "/v1/measures", "", &m)
	if d := time.Since(began); !m.Started.Equal(r.started) || m.UptimeNS < int64(d)/2 || m.Listeners != 1 || len(m.Namespaces) != *measured {
		t.Errorf("started %v, %v later, %d namespaces", m.Started, time.Duration(m.UptimeNS), len(m.Namespaces))
	}
	n := &m.Namespaces[0]
	if n.Subsystem != "a" || n.NSID != 1 || !n.Ready || n.Kind != "memory" || n.ReadBytes != 512 || n.Errors != 0 || len(n.Commands) != 1 ||
		n.Commands[0].Op != "read" || n.Commands[0].Command.SumNS <= 0 || len(n.Commands[0].Command.Buckets) != 1 {
		t.Errorf("namespace %+v", n)
	}
	if c := m.Controllers[0]; c.Host != "h1" || c.Connected.Before(began.Round(0)) || len(c.Queues) != 1 || c.Queues[0].Commands == 0 {
		t.Errorf("controller %+v", c)
	}
	wantCounters(t, &m)
	again := recentMeasures(r.Manager)
	if again.UptimeNS != m.UptimeNS && time.Since(at) < time.Second {
		t.Error("read again within a second")
	}
}

// fill adds namespaces, 1000 for each subsystem, to the existing one.
func (r *apiRig) fill(all int) (subsystems []nvmeof.NQN) {
	r.t.Helper()
	store, err := memory.New(memory.Config{Size: 1 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { store.Close() })
	s, err := r.subsystem("a")
	for n := 1; err == nil && n < all; n++ {
		if n%1000 == 0 {
			subsystems = append(subsystems, s.NQN())
			if s, err = r.target.AddSubsystem(target.SubsystemConfig{NQN: nvmeof.NQN(fmt.Sprint("many", n))}); err == nil {
				s.AllowAnyHost(true)
			}
		}
		if err == nil {
			_, err = s.AddNamespace(target.NamespaceConfig{Store: store})
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return append(subsystems, s.NQN())
}

// readAll reads a block of each namespace.
func readAll(t *testing.T, c *host.Controller) {
	t.Helper()
	block := make([]byte, 512)
	all, err := c.Namespaces(t.Context())
	for _, id := range all {
		var n *host.Namespace
		if n, err = c.Namespace(t.Context(), id); err == nil {
			_, err = n.ReadAt(block, 0)
		}
		if err != nil {
			break
		}
	}
	if err != nil || !bytes.Equal(block, make([]byte, 512)) {
		t.Fatalf("%d namespaces, %v", len(all), err)
	}
}

func wantCounters(t *testing.T, m *Measures) {
	t.Helper()
	if len(m.Devices) != 1 || len(m.Devices[0].Counters) < 40 || m.Devices[0].Counters[0].Name != "packets_in" || m.Devices[0].Counters[0].N == 0 {
		t.Errorf("devices %+v", m.Devices)
	}
	var busy int64
	var toHosts int
	for _, s := range m.Shards {
		busy, toHosts = busy+s.BusyNS, toHosts+len(s.ToHosts.Buckets)
		for _, b := range s.Turns.Buckets {
			if b[0] > uint64(len(m.BoundsNS)) || b[1] == 0 {
				t.Errorf("bucket %v of %d", b, len(m.BoundsNS))
			}
		}
	}
	if busy <= 0 || toHosts == 0 {
		t.Errorf("shards %+v", m.Shards)
	}
}
