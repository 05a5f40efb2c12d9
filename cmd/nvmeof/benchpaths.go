package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchreport"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/nvmeof/attach"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// A link is what a measurement goes through: one controller, whose loss ends it, or
// paths, which may be lost and come back. The load itself sees only the stores.
type link interface {
	nvmeverb.NamespaceLister
	open(context.Context, capsule.NSID) (backend.Store, error)
	newMemory(size int) (attach.Memory, error)
}

// A controllerLink is one controller, without anything between.
type controllerLink struct{ *host.Controller }

func (c controllerLink) open(ctx context.Context, id capsule.NSID) (backend.Store, error) {
	return c.Namespace(ctx, id)
}

func (c controllerLink) newMemory(size int) (attach.Memory, error) { return c.NewBuffers(size) }

// A pathsLink is a subsystem by one path or more.
type pathsLink struct{ *multipath.Subsystem }

func (p pathsLink) open(ctx context.Context, id capsule.NSID) (backend.Store, error) {
	return p.Namespace(ctx, id)
}

func (p pathsLink) newMemory(size int) (attach.Memory, error) { return p.NewBuffers(size) }

// pathFlags are those with which even one address is a path that may come back.
var pathFlags = []string{"reconnect-delay", "ctrl-loss-tmo", "fast_io_fail_tmo", "iopolicy"}

func (l *load) overPaths(cmd *cobra.Command) bool {
	return strings.Contains(l.traddr, ",") || slices.ContainsFunc(pathFlags, func(name string) bool { return cmd.Flags().Changed(name) })
}

// measure runs a measurement over what the flags ask for.
func (l *load) measure(cmd *cobra.Command, m *measurement) error {
	if !l.overPaths(cmd) {
		return l.connected(cmd, func(ctx context.Context, c *host.Controller) error { return m.run(ctx, controllerLink{c}) })
	}
	return l.measurePaths(cmd, m)
}

func (l *load) measurePaths(cmd *cobra.Command, m *measurement) (err error) {
	policy, err := multipath.ParsePolicy(cmp.Or(l.policy, multipath.NUMA.String()))
	if err != nil {
		return usage("--iopolicy %v", err)
	}
	all := &hosts{warn: cmd.ErrOrStderr()}
	defer func() { err = errors.Join(err, all.close()) }()
	paths, identity, err := l.paths(all)
	if err != nil {
		return err
	}
	diary := newPathDiary(cmd.ErrOrStderr())
	defer diary.close()
	cfg := multipath.Config{NQN: paths[0].Options.NQN, Policy: policy, Event: diary.note}
	for _, p := range paths {
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{Host: p.Host, Options: p.Options, Timers: p.Timers})
	}
	ctx := cmd.Context()
	wait, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	s, err := multipath.Connect(wait, cfg)
	if err != nil {
		return explain(ctx, err, identity)
	}
	err = m.run(ctx, pathsLink{s})
	m.paths = diary.report(s, policy)
	var lost *multipath.NoPathError
	if errors.As(err, &lost) {
		err = &connectError{Err: err}
	}
	if err != nil {
		err = statusFailure(cmd, err, func(status capsule.Status) string { return adviceTexts[status.Code()] })
	}
	return errors.Join(err, s.Close())
}

// A pathDiary notes what happens to paths, and tells of it at once.
type pathDiary struct {
	out io.Writer

	mu     sync.Mutex // guards what follows
	events []pathEvent
	states map[*multipath.Path]multipath.State
	told   int // events

	news    chan struct{} // closed at the end
	telling sync.WaitGroup
}

// A pathEvent is that a path has another state.
type pathEvent struct {
	at      time.Time
	AtMsec  int64  `json:"at_ms"` // since the measurement began; negative: in the ramp
	Address string `json:"address"`
	State   string `json:"state"`
	Error   string `json:"error,omitempty"`
}

func newPathDiary(out io.Writer) *pathDiary {
	d := &pathDiary{out: out, states: map[*multipath.Path]multipath.State{}, news: make(chan struct{}, 1)}
	d.telling.Go(d.tell) // until close
	return d
}

// note is for [multipath.Config].Event: it does not block.
func (d *pathDiary) note(e multipath.Event) {
	if e.ANA && e.Err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was, known := d.states[e.Path]
	if d.states[e.Path] = e.State; known && was == e.State && !e.ANA || e.State == multipath.StateDeleting {
		return
	}
	if !known && e.State == multipath.StateLive { // as it has to be
		return
	}
	p := pathEvent{at: time.Now(), Address: e.Path.Addr().String(), State: e.State.String()}
	if e.Err != nil {
		p.Error = e.Err.Error()
	}
	d.events = append(d.events, p)
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// tell prints what happens, beside a line of progress.
func (d *pathDiary) tell() {
	clear := ""
	if terminal.Is(d.out) {
		clear = "\r\x1b[K"
	}
	for range d.news {
		d.mu.Lock()
		fresh := slices.Clone(d.events[d.told:])
		d.told = len(d.events)
		d.mu.Unlock()
		for _, e := range fresh {
			fmt.Fprintf(d.out, "%snvmeof: %s\n", clear, e.text())
		}
	}
}

func (e *pathEvent) text() string {
	s := e.Address + ": " + e.State
	if e.Error != "" {
		s += ": " + e.Error
	}
	return s
}

// close ends the telling. Nothing may be noted any more.
func (d *pathDiary) close() {
	close(d.news)
	d.telling.Wait()
}

// A pathsReport is how paths did during a measurement.
type pathsReport struct {
	Policy string       `json:"iopolicy"`
	Paths  []pathReport `json:"list"`
	Events []pathEvent  `json:"events"`
}

type pathReport struct {
	Address    string `json:"address"`
	State      string `json:"state"`
	Error      string `json:"error,omitempty"`
	Reconnects uint64 `json:"reconnects"`
	Requests   uint64 `json:"requests"` // that came back from it, of the ramp and the verification too
	Errors     uint64 `json:"errors"`   // of those, repeated or not
	Latency    int64  `json:"latency_ns"`
}

// report is how the paths are now, and what happened to them until now.
func (d *pathDiary) report(s *multipath.Subsystem, policy multipath.Policy) *pathsReport {
	r := &pathsReport{Policy: policy.String(), Events: []pathEvent{}}
	for _, p := range s.Paths() {
		st := p.Status()
		one := pathReport{Address: p.Addr().String(), State: st.State.String(), Reconnects: st.Reconnects,
			Requests: st.Completed, Errors: st.Errors, Latency: int64(st.Latency)}
		if st.Err != nil {
			one.Error = st.Err.Error()
		}
		r.Paths = append(r.Paths, one)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Events = append(r.Events, d.events...)
	return r
}

// since sets the times of events.
func (r *pathsReport) since(began time.Time) {
	for i := range r.Events {
		r.Events[i].AtMsec = r.Events[i].at.Sub(began).Milliseconds()
	}
}

// table is the report for a page, with the columns [benchreport.PathColumns].
func (r *pathsReport) table() (lines [][]string, events []benchreport.Event) {
	for _, p := range r.Paths {
		lines = append(lines, []string{p.Address, p.State, fmt.Sprint(p.Reconnects), fmt.Sprint(p.Requests), fmt.Sprint(p.Errors)})
	}
	for i := range r.Events {
		e := &r.Events[i]
		events = append(events, benchreport.Event{At: time.Duration(e.AtMsec) * time.Millisecond, Text: e.text()})
	}
	return lines, events
}

// text is the report for people.
func (r *pathsReport) text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nPaths (%s):\n", r.Policy)
	for _, p := range r.Paths {
		fmt.Fprintf(&b, "  %s: %s, reconnected %d times, %d requests, %d errors\n", p.Address, p.State, p.Reconnects, p.Requests, p.Errors)
	}
	for i := range r.Events {
		e := &r.Events[i]
		fmt.Fprintf(&b, "  %8.3f s  %s\n", float64(e.AtMsec)/1e3, e.text())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
