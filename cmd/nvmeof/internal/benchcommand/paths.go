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

// A Link is the connection used by a measurement: one controller, whose loss ends the measurement, or paths, which are
// reconnected after a loss. The load itself sees only the stores.
type Link interface {
	nvmeverb.NamespaceLister
	open(context.Context, capsule.NSID) (backend.Store, error)
	newMemory(size int) (buffers, error)
	abandon() // disconnects: outstanding requests fail, and the memory is freed
}

// buffers is memory that the stores of a link access without a copy.
type buffers interface {
	Bytes() []byte
	Close() error
}

// A controllerLink is a single controller.
type controllerLink struct{ *host.Controller }

func (c controllerLink) open(ctx context.Context, id capsule.NSID) (backend.Store, error) {
	return c.Namespace(ctx, id)
}

func (c controllerLink) newMemory(size int) (buffers, error) { return c.NewBuffers(size) }

func (c controllerLink) abandon() {
	_ = c.Disconnect(context.Background()) // within the time of a shutdown; the second call returns its error
}

// A pathsLink is a subsystem with one or more paths.
type pathsLink struct{ *multipath.Subsystem }

func (p pathsLink) open(ctx context.Context, id capsule.NSID) (backend.Store, error) {
	return p.Namespace(ctx, id)
}

func (p pathsLink) newMemory(size int) (buffers, error) { return p.NewBuffers(size) }

func (p pathsLink) abandon() { _ = p.Close() } // as for a controller

// OverController returns a link through one controller.
func OverController(c *host.Controller) Link { return controllerLink{c} }

// OverPaths returns a link through the paths of a subsystem.
func OverPaths(s *multipath.Subsystem) Link { return pathsLink{s} }

// A Diary records what happens to paths, and prints it at once.
type Diary struct {
	out io.Writer

	mu      sync.Mutex // guards the fields below
	events  []pathEvent
	states  map[*multipath.Path]multipath.State
	printed int // number of events printed

	news     chan struct{} // closed at the end
	printing sync.WaitGroup
}

// A pathEvent is a change of a path's state.
type pathEvent struct {
	at      time.Time
	AtMsec  int64  `json:"at_ms"` // since the measurement began; negative: during the ramp
	Address string `json:"address"`
	State   string `json:"state"`
	Error   string `json:"error,omitempty"`
}

// NewDiary starts a diary that prints to out.
func NewDiary(out io.Writer) *Diary {
	d := &Diary{out: out, states: map[*multipath.Path]multipath.State{}, news: make(chan struct{}, 1)}
	d.printing.Go(d.print) // until Close
	return d
}

// Note records an event. It is used as [multipath.Config].Event, and does not block.
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
	if !known && e.State == multipath.StateLive { // the normal state
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

// print prints events, without disturbing a line of progress.
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

// Close ends the printing. Note must not be called any more.
func (d *Diary) Close() {
	close(d.news)
	d.printing.Wait()
}

// A Paths describes the paths and what happened to them during a measurement.
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
	Requests   uint64 `json:"requests"` // completed by the path, including those of the ramp and the verification
	Errors     uint64 `json:"errors"`   // those of Requests that failed, repeated or not
	Latency    int64  `json:"latency_ns"`
}

// Report returns the present state of the paths, and what has happened to them.
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

// since converts the times of events to times since the measurement began.
func (r *Paths) since(began time.Time) {
	for i := range r.Events {
		r.Events[i].AtMsec = r.Events[i].at.Sub(began).Milliseconds()
	}
}

// table returns the report for a page, with the columns [benchreport.PathColumns].
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

// text prints the report for people.
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
