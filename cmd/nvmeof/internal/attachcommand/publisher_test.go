package attachcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// A subsystem has a fixed list of namespaces.
type subsystem struct {
	connections.Subsystem
	there, waiting []capsule.NSID
	err            error
}

func (s *subsystem) Namespaces(context.Context) (all []connections.Namespace, err error) {
	for _, id := range s.there {
		all = append(all, connections.Namespace{ID: id})
	}
	return all, s.err
}

func (s *subsystem) Waiting() []capsule.NSID { return slices.Clone(s.waiting) }

// TestWanted checks which namespaces are published, which are waited for, and the error if there is neither.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		name    string
		s       subsystem
		wanted  capsule.NSID
		taken   int
		awaited bool
		missing string // empty: missing is not called
	}{
		{"all", subsystem{there: []capsule.NSID{1, 3}}, 0, 2, false, ""},
		{"one of several", subsystem{there: []capsule.NSID{1, 3}}, 3, 1, false, ""},
		{"none there", subsystem{}, 0, 0, false, "the subsystem has no namespace"},
		{"another one", subsystem{there: []capsule.NSID{1}, waiting: []capsule.NSID{7}}, 2, 0, false, "--namespace-id 2: no such namespace; the subsystem has: 1, 7"},
		{"one that waits", subsystem{there: []capsule.NSID{1}, waiting: []capsule.NSID{2}}, 2, 0, true, ""},
		{"all that wait", subsystem{waiting: []capsule.NSID{2}}, 0, 0, true, ""},
		{"a fault", subsystem{err: errors.New("cut off")}, 0, 0, false, "cut off"},
		{"of very many", subsystem{there: []capsule.NSID{1}, err: &connections.LeftOutError{Listed: 5000, Opened: 4096}}, 6000, 0, false, "--namespace-id 6000: no such namespace"},
		{"not ready", subsystem{there: []capsule.NSID{1}, err: host.ErrNotReady}, 4, 0, false, "--namespace-id 4: no such namespace"},
	} {
		p := &publisher{subsystem: &c.s, wanted: c.wanted}
		there, err := p.look(t.Context())
		if len(p.namespaces) != c.taken || p.awaited() != c.awaited {
			t.Errorf("%s: %d are taken, awaited is %v", c.name, len(p.namespaces), p.awaited())
		}
		if c.missing != "" {
			if err := p.missing(there, err); !strings.Contains(err.Error(), c.missing) {
				t.Errorf("%s: %v, want %s", c.name, err, c.missing)
			}
		}
	}
}

// TestLowest checks which namespace is the default export.
func TestLowest(t *testing.T) {
	for _, c := range []struct {
		wanted         capsule.NSID
		there, waiting []capsule.NSID
		want           capsule.NSID
	}{
		{0, []capsule.NSID{3, 5}, nil, 3},
		{0, []capsule.NSID{3}, []capsule.NSID{2}, 2}, // which becomes ready later
		{5, []capsule.NSID{3, 5}, nil, 5},
	} {
		p := &publisher{subsystem: &subsystem{there: c.there, waiting: c.waiting}, wanted: c.wanted}
		if _, err := p.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.lowest(); got != c.want {
			t.Errorf("of %v, with %v that wait: %d, want %d", c.there, c.waiting, got, c.want)
		}
	}
}

// A controller has a fixed status.
type controller struct{ now connections.Status }

func (c *controller) Status() connections.Status { return c.now }
func (c *controller) Disconnect() error          { return nil }

// TestUnflushed checks that data that remains volatile at the end is reported, each namespace with its reason.
func TestUnflushed(t *testing.T) {
	flush := func(err error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err == nil {
				return nil
			}
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{controllers: []connections.Controller{live{}}, namespaces: []connections.Namespace{
			{ID: 1, Store: volatile{}, Flush: flush(nil)}, {ID: 2, Store: volatile{}, Flush: flush(errors.New("x"))},
		}}
		if err := p.flush(); err == nil || !strings.HasPrefix(err.Error(), "namespace 2 was not flushed: no answer within 5s; data that clients wrote") || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	})
}

// TestUnflushedWhileLost checks that without a controller nothing is flushed. This is reported at once for namespaces
// with unflushed data, unless the error already says that no controller is left.
func TestUnflushedWhileLost(t *testing.T) {
	for state, want := range map[connections.State]bool{connections.Connecting: true, connections.Dead: false} {
		p := &publisher{
			controllers: []connections.Controller{&controller{connections.Status{State: connections.Dead}}, &controller{connections.Status{State: state}}},
			namespaces: []connections.Namespace{{ID: 2, Store: volatile{}, Unflushed: func() bool { return false }}, {ID: 3, Store: volatile{}},
				{ID: 4, Store: volatile{}, Unflushed: func() bool { return true }}},
		}
		if err := p.flush(); (err != nil) != want || want && (!strings.HasPrefix(err.Error(), "namespace 3 was not flushed: the controller was lost") ||
			!strings.Contains(err.Error(), "\nnamespace 4 was not flushed")) {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// TestPrint checks that a published namespace is announced in one line, and that what to type is printed for the first
// disk, or for each with --verbose.
func TestPrint(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		socket := filepath.Join(t.TempDir(), "s")
		p := &publisher{front: &front{cfg: nbd.Config{Socket: socket}}, verbose: verbose, lines: linesTo(io.Discard)}
		var lines []int
		come := func(ids ...capsule.NSID) {
			t.Helper()
			for _, id := range ids {
				s, err := memory.New(memory.Config{Size: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				p.namespaces = append(p.namespaces, connections.Namespace{ID: id, Store: s})
			}
			if err := p.publish(); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			p.print(&out)
			for _, id := range ids {
				want := fmt.Sprintf("namespace %d, 1048576 bytes in blocks of 4096, UUID 00000000-0000-0000-0000-000000000000: nbd+unix:///%d?socket=%s\n", id, id, socket)
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in %q", want, out.String())
				}
			}
			lines = append(lines, strings.Count(out.String(), "\n"))
		}
		come(1, 2)
		come(3)
		come()
		if err := p.front.Close(); err != nil {
			t.Error(err)
		}
		if want := map[bool][]int{false: {6, 1, 0}, true: {10, 5, 0}}[verbose]; !slices.Equal(lines, want) {
			t.Errorf("verbose %v: %v lines, want %v", verbose, lines, want)
		}
	}
}

// linesTo returns Lines written as the command writes them.
func linesTo(w io.Writer) *connections.Lines {
	return connections.NewLines("the subsystem", func(line string) { fmt.Fprintln(w, "nvmeof:", line) })
}

// A restless subsystem has different namespaces each time, and ends after a number of calls.
type restless struct {
	connections.Subsystem
	p     *publisher
	times int // calls allowed
	asked int
	end   func()
}

// A thing is a store that is never read.
type thing struct {
	backend.Store
	id int
}

func (*thing) Info() backend.Info { return backend.Info{Size: 1 << 20, BlockSize: 512} }

const restlessNamespaces = 100

func (s *restless) Namespaces(context.Context) (all []connections.Namespace, err error) {
	s.asked++
	if s.asked == s.times {
		s.end() // it may be called a few more times until that is noticed
	}
	s.p.changed()
	for id := range restlessNamespaces {
		all = append(all, connections.Namespace{ID: capsule.NSID(id + 1), Store: &thing{id: id}})
		err = errors.Join(err, fmt.Errorf("namespace %d: no", 1000+id))
	}
	return all, err
}

func (s *restless) Waiting() []capsule.NSID { return nil }

// TestRestless checks that a target that changes the identity of its namespaces with each event cannot fill a log:
// beyond a burst only a few lines a second are printed, and the number of lines left out is reported.
func TestRestless(t *testing.T) {
	const times = 100
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var out, warn bytes.Buffer
	f := &front{cfg: nbd.Config{Socket: filepath.Join(t.TempDir(), "s")}}
	p := &publisher{front: f, controllers: []connections.Controller{live{}}, names: []string{"192.0.2.1"},
		warn: &warn, lines: linesTo(&warn), news: make(chan struct{}, 1)}
	s := &restless{p: p, times: times, end: end}
	p.subsystem = s
	began := time.Now()
	if err := p.serve(ctx, &out); err != nil {
		t.Fatal(err)
	}
	most := connections.LineBurst + int(time.Since(began)/connections.LineTime) + 1
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	printed := strings.Count(out.String(), "\nnamespace ") + 1 + strings.Count(warn.String(), ": no\n")
	left := 0
	for line := range strings.Lines(warn.String()) {
		var n int
		if _, err := fmt.Sscanf(line, "nvmeof: the subsystem changes too often: %d messages about it were suppressed\n", &n); err == nil {
			left += n
		}
	}
	least, all := 2*(times-1)*restlessNamespaces, 2*s.asked*restlessNamespaces
	if printed < connections.LineBurst || printed > most+restlessNamespaces || printed+left < least || printed+left > all {
		t.Errorf("%d lines are printed, of which %d may be, and %d were left out, of %d to %d", printed, most, left, least, all)
	}
}

type live struct{ connections.Controller }

func (live) Status() connections.Status { return connections.Status{State: connections.Live} }

type volatile struct{ backend.Store }

func (volatile) Info() backend.Info { return backend.Info{Volatile: true} }

// TestStates checks that each change of a controller is reported once, including its replacement by another one, and
// that the end of the last one is the error.
func TestStates(t *testing.T) {
	one, other := &controller{connections.Status{State: connections.Live, ID: 1}}, &controller{connections.Status{State: connections.Live, ID: 2}}
	var out bytes.Buffer
	p := &publisher{controllers: []connections.Controller{one, other}, names: []string{"192.0.2.1", "192.0.2.2"}, warn: &out, lines: linesTo(&out)}
	lost, refused := errors.New("keep alive was not answered"), errors.New("host is not allowed")
	for i, c := range []struct {
		one, other connections.Status
		want       string
		last       bool
	}{
		{one.now, other.now, "", false},
		{connections.Status{State: connections.Connecting, Err: lost}, other.now, "nvmeof: 192.0.2.1: connecting: keep alive was not answered\n", false},
		{connections.Status{State: connections.Connecting, Err: lost}, connections.Status{State: connections.Live, ID: 9}, "nvmeof: 192.0.2.2: live\n", false},
		{connections.Status{State: connections.Connecting, Err: refused}, connections.Status{State: connections.Live, ID: 9}, "nvmeof: 192.0.2.1: connecting: host is not allowed\n", false},
		{connections.Status{State: connections.Connecting, Err: lost}, connections.Status{State: connections.Live, ID: 9}, "", false},
		{connections.Status{State: connections.Dead, Err: lost}, connections.Status{State: connections.Live, ID: 9}, "nvmeof: 192.0.2.1: dead: keep alive was not answered\n", false},
		{connections.Status{State: connections.Dead, Err: lost}, connections.Status{State: connections.Dead, ID: 9, Err: lost}, "nvmeof: 192.0.2.2: dead: keep alive was not answered\n", true},
	} {
		one.now, other.now = c.one, c.other
		err := p.states()
		if out.String() != c.want || (err != nil) != c.last || c.last && !errors.As(err, new(*failure.Connect)) {
			t.Errorf("%d: %v; it prints %q, want %q", i, err, &out, c.want)
		}
		out.Reset()
	}
}
