package interop

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

var rounds = flag.Int("rounds", 1, "how often TestVerbsBench measures everything")

const (
	benchSeconds = 3    // duration of one workload
	benchLimit   = 1.5  // limit of the ratio to nvmet's processor time per I/O
	idleLimit    = 0.05 // limit of the share of the processor while connected and idle
)

// A workload is a load of fio, with blocks of 4 KiB.
type workload struct {
	name, rw string
	depth    int
}

var workloads = []workload{{"read,QD1", "randread", 1}, {"read,QD16", "randread", 16}, {"write,QD16", "randwrite", 16}}

// contenders are measured in turn, round by round, with each storage: a file of an ext4, and a block device, both in
// memory.
var (
	contenders = []string{"nvmeof", "nvmet"}
	storages   = []string{"block", "file"}
)

// benchFigures are the figures of one round, of a workload or of an idle target. Rates and latencies are in real time,
// which other programs on this machine disturb.
type benchFigures struct {
	cpu      float64 // microseconds of the target's processor per I/O, as its kernel counts
	emulator float64 // microseconds of the emulator's thread for that processor per I/O
	busy     float64 // share of that processor's time
	iops     float64
	p50      float64 // microseconds
	p99      float64
}

// A benchCell is one workload, or an idle target, of one contender with one storage.
type benchCell struct{ storage, workload, contender string }

// TestVerbsBench compares our target on the verbs provider with nvmet-rdma, over the same rxe device and the same
// storage. The target has a machine with one processor of its own, so that this processor's time has everything that
// the target costs: the program, the kernel's workers, rxe, the file system, interrupts. That machine's clock counts
// instructions. Otherwise the test would compare the emulator's time, which depends on how it finds translated code.
// The host has another machine. Emulated machines give ratios, no absolute speeds.
func TestVerbsBench(t *testing.T) {
	needGuest(t)
	l := newPair(t, peerVerbs, guest.Config{CPUs: 1, InstructionClock: true}, guest.Config{CPUs: 1})
	judgeBench(t, l.compare(t))
}

// compare measures all cells.
func (l *lab) compare(t *testing.T) map[benchCell][]benchFigures {
	t.Helper()
	l.buildVerbs(t, filepath.Join(l.peerDir, "nvmeof"))
	l.link(t, 1500)
	e := env{"nqn": targetNQN, "addr": "10.9.0.1", "seconds": benchSeconds, "options": ""}
	l.onPeer(t, 2*time.Minute, "contender", e.with(env{"action": "prepare"}))
	results := map[benchCell][]benchFigures{}
	for range *rounds {
		for _, s := range storages {
			for _, c := range contenders {
				l.measureContender(t, e.with(env{"contender": c, "storage": s}), func(workload string, f benchFigures) {
					cell := benchCell{s, workload, c}
					results[cell] = append(results[cell], f)
				})
			}
		}
	}
	return results
}

const idleness = "idle"

// measureContender starts a target, measures each workload and then the idle target, and stops it.
func (l *lab) measureContender(t *testing.T, e env, take func(string, benchFigures)) {
	t.Helper()
	act := func(action string, more env) string {
		t.Helper()
		return l.onHost(t, time.Minute, "verbsbench", e.with(more).with(env{"action": action}))
	}
	l.onPeer(t, time.Minute, "contender", e.with(env{"action": "start"}))
	act("connect", nil)
	for _, w := range workloads {
		before := l.emulated(t)
		out := act("load", env{"name": w.name, "rw": w.rw, "depth": w.depth})
		emulated := l.emulated(t) - before
		var busy, idle, ios, seconds, p50, p99 float64
		_, result, _ := strings.Cut(out, "RESULT ")
		if n, _ := fmt.Sscan(result, &busy, &idle, &ios, &seconds, &p50, &p99); n != 6 || ios == 0 {
			t.Fatalf("no result in:\n%s", out)
		}
		take(w.name, benchFigures{
			cpu: busy / ios * 1e6, emulator: float64(emulated.Microseconds()) / ios, busy: busy / (busy + idle),
			iops: ios / seconds, p50: p50, p99: p99,
		})
	}
	out := act("idle", nil)
	var f benchFigures
	_, result, _ := strings.Cut(out, "IDLE ")
	if n, _ := fmt.Sscan(result, &f.busy); n != 1 {
		t.Fatalf("no share in:\n%s", out)
	}
	take(idleness, f)
	act("disconnect", nil)
	l.onPeer(t, time.Minute, "contender", e.with(env{"action": "stop"}))
}

// emulated returns how long this machine has worked for the target's processor so far.
func (l *lab) emulated(t *testing.T) time.Duration {
	t.Helper()
	ran, err := l.other.ProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	return ran
}

// judgeBench prints the medians and fails the test if a ratio exceeds its limit.
func judgeBench(t *testing.T, results map[benchCell][]benchFigures) {
	t.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\t\tCPU us/IO\temulator us/IO\tCPU busy\tIOPS\tp50 us\tp99 us\t")
	for _, storage := range storages {
		for _, load := range workloads {
			judgeLoad(t, w, storage+","+load.name, func(contender string) benchFigures {
				return medians(results[benchCell{storage, load.name, contender}])
			})
		}
		for _, c := range contenders {
			m := medians(results[benchCell{storage, idleness, c}])
			fmt.Fprintf(w, "%s,idle\t%s\t\t\t%.1f %%\t\t\t\t\n", storage, c, 100*m.busy)
			if m.busy > idleLimit {
				t.Errorf("%s takes %.1f %% of the processor with nothing to do, at most %.0f %% are allowed", c, 100*m.busy, 100*idleLimit)
			}
		}
	}
	w.Flush()
	t.Logf("medians of %d rounds, CPU time in instructions of 8 ns:\n%s", *rounds, table.String())
}

// judgeLoad prints and judges one workload.
func judgeLoad(t *testing.T, w io.Writer, name string, of func(contender string) benchFigures) {
	t.Helper()
	var m [2]benchFigures
	for i, c := range contenders {
		m[i] = of(c)
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.0f %%\t%.0f\t%.0f\t%.0f\t\n", name, c, m[i].cpu, m[i].emulator, 100*m[i].busy, m[i].iops, m[i].p50, m[i].p99)
	}
	ratio := m[0].cpu / m[1].cpu
	fmt.Fprintf(w, "\tratio\t%.2f x\t%.2f x\t\t\t\t\t\n", ratio, m[0].emulator/m[1].emulator)
	if ratio > benchLimit {
		t.Errorf("%s: %.0f us of processor time per I/O, %.2f times nvmet's %.0f us, at most %.1f times are allowed",
			name, m[0].cpu, ratio, m[1].cpu, benchLimit)
	}
}

// medians returns the median of each figure.
func medians(fs []benchFigures) benchFigures {
	of := func(get func(benchFigures) float64) float64 { return median(fs, get) }
	return benchFigures{
		cpu: of(func(f benchFigures) float64 { return f.cpu }), emulator: of(func(f benchFigures) float64 { return f.emulator }),
		busy: of(func(f benchFigures) float64 { return f.busy }), iops: of(func(f benchFigures) float64 { return f.iops }),
		p50: of(func(f benchFigures) float64 { return f.p50 }), p99: of(func(f benchFigures) float64 { return f.p99 }),
	}
}

// median returns the median of one figure.
func median(fs []benchFigures, of func(benchFigures) float64) float64 {
	values := make([]float64, len(fs))
	for i, f := range fs {
		values[i] = of(f)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
