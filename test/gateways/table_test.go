package gateways

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	table = flag.Bool("table", false, "measure the figures of TestTable")
	kills = flag.Int("kills", 20, "how many gateways TestTable kills")
	calms = flag.Int("moves", 20, "how many gateways TestTable drains and ends, and how many ANA groups it moves, in all")
	many  = flag.Int("namespaces", 10000, "how many namespaces the group of TestTable has")
	large = flag.Int("gateways", 16, "how many gateways the largest group of TestTable has")
)

// A figure is a row of the table.
type figure struct {
	name  string
	times []time.Duration // measured; nil: text has the result
	text  string
	least string        // the limit, in words
	limit time.Duration // of the 99th percentile; 0: met says whether the figure is good
	met   bool
}

// A sheet is the table.
type sheet struct {
	store   string
	figures []figure
}

func (s *sheet) add(f figure) {
	if f.limit > 0 {
		f.met = len(f.times) > 0 && quantile(f.times, 0.99) <= f.limit
		f.least = cmp.Or(f.least, fmt.Sprintf("p99 ≤ %v", f.limit))
	}
	if f.times != nil {
		f.text = strings.TrimSpace(quantiles(f.times) + " of " + fmt.Sprint(len(f.times)) + " " + f.text)
	}
	s.figures = append(s.figures, f)
}

// String returns the table in columns.
func (s *sheet) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "figure\tmeasured: p50, p99, max\tat least\tmet\n")
	for _, f := range s.figures {
		met := "no"
		if f.met {
			met = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.name, f.text, f.least, met)
	}
	_ = w.Flush() // writes to memory, and so never fails
	return out.String()
}

// TestTable measures what a group of gateways reaches on this machine. It fails only for what TestRounds fails for.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("without -table")
	}
	s := &sheet{store: "etcd, files, fence: lease"}
	if *real {
		s.store = "Ceph"
	}
	t.Run("Faults", func(t *testing.T) { s.faults(t) })
	t.Run("Discovery", func(t *testing.T) { s.discovery(t) })
	t.Run("Many", func(t *testing.T) { s.namespaces(t) })
	t.Run("Gateways", func(t *testing.T) { s.gateways(t) })
	t.Logf("\n%v", s)
}

// stallLimit is how long I/O may wait for a planned move.
const stallLimit = 500 * time.Millisecond

// faults measures the faults and changes of gateways under I/O.
func (s *sheet) faults(t *testing.T) {
	t.Logf("seed %d", *seed)
	dir := t.TempDir()
	l := &lab{random: rand.New(rand.NewPCG(*seed, 0)), cluster: startCluster(t, dir, newStore(t, dir), 3)}
	l.begin(t, dir)
	for i := range *kills {
		l.round(t, i, kindOf("kill -9"))
	}
	killed := l.done
	l.done = nil
	calm := []kind{kindOf("drain, resume"), kindOf("ana-group move"), kindOf("SIGTERM, start")}
	for i := range *calms {
		l.round(t, i, calm[i%len(calm)])
		if l.done[i].longest > stallLimit {
			l.tails(t)
		}
	}
	calmly := l.done
	var down []*round
	if *real {
		l.done = nil
		l.round(t, 0, cephKinds[0])
		down = l.done
	}
	l.done = slices.Concat(killed, calmly, down)
	l.finish(t)

	took := func(r *round) time.Duration { return r.took }
	longest := func(r *round) time.Duration { return r.longest }
	s.add(figure{name: "kill -9 to new owner optimized, " + s.store, times: each(killed, took), limit: 4 * time.Second})
	s.add(figure{name: "longest stall of our host's I/O at that", times: each(killed, longest), limit: 10 * time.Second})
	s.add(figure{name: "planned drain, failback, move, restart: stall", times: each(calmly, longest), text: errorsOf(calmly), limit: stallLimit, least: "no error, p99 ≤ 500ms"})
	if *real {
		s.add(figure{name: fmt.Sprintf("monitor down for %v: I/O", *downTime), text: "goes on, " + errorsOf(down) + "; longest command " + quantiles(each(down, longest)), least: "goes on", met: !t.Failed()})
	}
}

func kindOf(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}

func each(all []*round, f func(*round) time.Duration) (out []time.Duration) {
	for _, r := range all {
		out = append(out, f(r))
	}
	return out
}

func errorsOf(all []*round) string {
	n := 0
	for _, r := range all {
		n += len(r.errors)
	}
	return fmt.Sprintf("%d errors", n)
}
