package benchcommand

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchreport"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// A Link is what a measurement goes through: one controller, whose loss ends it, or
// paths, which may be lost and come back. The load itself sees only the stores.
type Link interface {
	nvmeverb.NamespaceLister
	open(context.Context, capsule.NSID) (backend.Store, error)
	newMemory(size int) (buffers, error)
	abandon() // disconnects: what is outstanding fails, and there is no memory any more
}

// buffers are memory to and from which the stores of a link move data without a copy.
type buffers interface {
	Bytes() []byte
	Close() error
}

// A controllerLink is one controller, without anything between.
type controllerLink struct{ *host.Controller }

func (c controllerLink) open(ctx context.Context, id capsule.NSID) (backend.Store, error) {
	return c.Namespace(ctx, id)
}

func (c controllerLink) newMemory(size int) (buffers, error) { return c.NewBuffers(size) }

func (c controllerLink) abandon() {
	_ = c.Disconnect(context.Background()) // within the time of a shutdown; its error is that of the second call
}

// A pathsLink is a subsystem by one path or more.
type pathsLink struct{ *multipath.Subsystem }

func (p pathsLink) open(ctx context.Context, id capsule.NSID) (backend.Store, error) {
	return p.Namespace(ctx, id)
}

func (p pathsLink) newMemory(size int) (buffers, error) { return p.NewBuffers(size) }

func (p pathsLink) abandon() { _ = p.Close() } // as that of a controller

// OverController is a link through one controller.
func OverController(c *host.Controller) Link { return controllerLink{c} }

// OverPaths is a link through the paths of a subsystem.
func OverPaths(s *multipath.Subsystem) Link { return pathsLink{s} }

// A Diary notes what happens to paths, and prints it at once.
type Diary struct {
	out io.Writer

	mu      sync.Mutex // guards what follows
	events  []pathEvent
	states  map[*multipath.Path]multipath.State
	printed int // events

	news     chan struct{} // closed at the end
	printing sync.WaitGroup
}

// A pathEvent is that a path has another state.
type pathEvent struct {
	at      time.Time
	AtMsec  int64  `json:"at_ms"` // since the measurement began; negative: in the ramp
	Address string `json:"address"`
	State   string `json:"state"`
	Error   string `json:"error,omitempty"`
}

// NewDiary begins to print.
func NewDiary(out io.Writer) *Diary {
	d := &Diary{out: out, states: map[*multipath.Path]multipath.State{}, news: make(chan struct{}, 1)}
	d.printing.Go(d.print) // until Close
	return d
}

// Note is for [multipath.Config].Event: it does not block.
func (d *Diary) Note(e multipath.Event) {
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

// print prints what happens, beside a line of progress.
func (d *Diary) print() {
	clear := ""
	if terminal.Is(d.out) {
		clear = "\r\x1b[K"
	}
	for range d.news {
		d.mu.Lock()
		fresh := slices.Clone(d.events[d.printed:])
		d.printed = len(d.events)
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

// Close ends the printing. Nothing may be noted any more.
func (d *Diary) Close() {
	close(d.news)
	d.printing.Wait()
}

// A Paths is how paths did during a measurement.
type Paths struct {
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

// Report is how the paths are now, and what happened to them until now.
func (d *Diary) Report(s *multipath.Subsystem, policy multipath.Policy) *Paths {
	r := &Paths{Policy: policy.String(), Events: []pathEvent{}}
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
func (r *Paths) since(began time.Time) {
	for i := range r.Events {
		r.Events[i].AtMsec = r.Events[i].at.Sub(began).Milliseconds()
	}
}

// table is the report for a page, with the columns [benchreport.PathColumns].
func (r *Paths) table() (lines [][]string, events []benchreport.Event) {
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
func (r *Paths) text(w io.Writer) error {
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
