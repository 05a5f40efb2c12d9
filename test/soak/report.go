package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nvmeof-go/nvmeof/test/soak/internal/client"
	"github.com/nvmeof-go/nvmeof/test/soak/internal/relay"
)

// totals are the results of all runs in a directory.
type totals struct {
	Pieces  int
	Time    time.Duration
	Hosts   map[string]*client.Counts
	Kills   map[string]int // of targets and hosts
	Returns client.Histogram
	Actions map[string]int
	Errors  map[string]uint64
	Stall   time.Duration // the longest without an answer
	Network relay.Stats
	Linux   linuxCounts
	Growths []growth // of processes, the latest last
}

func loadTotals(path string) (totals, error) {
	var t totals
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if t.Hosts == nil {
		t = totals{Hosts: map[string]*client.Counts{}, Kills: map[string]int{}, Actions: map[string]int{}, Errors: map[string]uint64{}}
	}
	return t, err
}

// begin records the start of a run.
func (l *lab) begin() {
	l.totals.Pieces++
	l.story.began = time.Now()
	l.story.add("soak", "piece %d, seed %d", l.totals.Pieces, l.o.seed)
}

// all returns the totals including this run.
func (l *lab) all() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.totals
	t.Time += time.Since(l.story.began)
	t.Hosts = map[string]*client.Counts{}
	for _, h := range l.hosts {
		c := h.counts()
		if o := l.totals.Hosts[h.plan.name]; o != nil {
			c.Add(o)
		}
		t.Hosts[h.plan.name] = &c
	}
	t.Kills, t.Actions, t.Errors = maps.Clone(t.Kills), maps.Clone(t.Actions), maps.Clone(t.Errors)
	n, o := l.relay.Stats(), &t.Network
	o.Carried += n.Carried
	o.Lost += n.Lost
	o.Duplicated += n.Duplicated
	o.Reordered += n.Reordered
	o.Cut += n.Cut
	o.Unknown += n.Unknown
	t.Growths = slices.Clone(t.Growths)
	for _, name := range slices.Sorted(maps.Keys(l.samples)) {
		if g, ok := judgeGrowth(name, l.samples[name]); ok {
			t.Growths = append(t.Growths, g)
		}
	}
	return t
}

// save writes the totals for the next run.
func (l *lab) save() error {
	b, err := json.Marshal(l.all())
	if err != nil {
		return err
	}
	path := l.path("totals.json")
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// verdict returns an error if a process has grown too much.
func (l *lab) verdict() error {
	var errs []error
	t := l.all()
	for _, g := range t.Growths[len(l.totals.Growths):] {
		for _, name := range g.grows() {
			errs = append(errs, fmt.Errorf("%s has grown: %s", g.Process, name))
		}
	}
	return errors.Join(errs...)
}

// report returns the table.
func (l *lab) report() string { t := l.all(); return t.String() }

func (t *totals) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nsoak: %.2f h in %d pieces\n\n", t.Time.Hours(), t.Pieces)
	t.hostTable(w)
	_ = w.Flush()
	fmt.Fprintf(&b, "\nkilled: targets %d times, hosts %d times\n", t.Kills["target"], t.Kills["host"])
	fmt.Fprintf(&b, "from the start of a target to a host's first answer: p50 %s, max %s; the longest without an answer: %s\n",
		short(t.Returns.Quantile(0.5)), short(t.Returns.Max), short(t.Stall))
	if x := t.Linux; x.Passes > 0 {
		fmt.Fprintf(&b, "Linux host: %d passes of fio, %d MiB written, %d MiB read and verified, %d reconnects\n", x.Passes, x.Written>>20, x.Read>>20, x.Reconnects)
	}
	n := &t.Network
	fmt.Fprintf(&b, "packets: %d carried, %d lost, %d twice, %d out of order, %d on a way that was cut\n", n.Carried, n.Lost, n.Duplicated, n.Reordered, n.Cut)
	var did []string
	for _, name := range slices.Sorted(maps.Keys(t.Actions)) {
		did = append(did, fmt.Sprintf("%s %d", name, t.Actions[name]))
	}
	fmt.Fprintf(&b, "changes: %s\n", strings.Join(did, ", "))
	t.errorTable(&b)
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	t.growthTable(w)
	_ = w.Flush()
	return b.String()
}

func (t *totals) hostTable(w *tabwriter.Writer) {
	fmt.Fprintln(w, "host\trequests\tFUA\tflushes\tblocks written\tblocks verified\tMiB\tpasses\tp50\tp99\tmax\t")
	var sum client.Counts
	row := func(name string, c *client.Counts) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", name, c.Requests(), c.FUA, c.Flushes, c.Written, c.Verified,
			(c.ReadBytes+c.WrittenBytes)>>20, c.Passes, short(c.Latency.Quantile(0.5)), short(c.Latency.Quantile(0.99)), short(c.Latency.Max))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Hosts)) {
		row(name, t.Hosts[name])
		sum.Add(t.Hosts[name])
	}
	row("all", &sum)
}

func (t *totals) errorTable(b *strings.Builder) {
	all := maps.Clone(t.Errors)
	for name, c := range t.Hosts {
		for kind, n := range c.Errors {
			all[name+", "+kind] += n
		}
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\nwhat was noticed on the way, and is no error of a request\n")
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(b, "%9d  %s\n", all[kind], kind)
	}
}

// growthTable shows the longest run of each process, and all runs in which it has grown.
func (t *totals) growthTable(w *tabwriter.Writer) {
	fmt.Fprintln(w, "\nprocess\thours\t\tfirst tenth\tlast tenth\tin an hour\t\t")
	longest := map[string]float64{}
	for _, g := range t.Growths {
		longest[g.Process] = max(longest[g.Process], g.Hours)
	}
	for _, g := range t.Growths {
		bad := g.grows()
		if g.Hours < longest[g.Process] && len(bad) == 0 {
			continue
		}
		for i, x := range g.What {
			name, hours, verdict := g.Process, fmt.Sprintf("%.2f", g.Hours), "steady"
			if i > 0 {
				name, hours = "", ""
			}
			if slices.Contains(bad, x.Name) {
				verdict = "GROWS"
			}
			if g.Hours < enough.Hours() {
				verdict = "too short to say"
			}
			if x.Last == 0 {
				verdict = "not known"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%.1f\t%+.1f\t%s\t\n", name, hours, x.Name, x.First, x.Last, x.PerHour, verdict)
		}
	}
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
