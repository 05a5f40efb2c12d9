package topcommand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// after returns a reading of a target with namespaces, each of which reads more than the one before.
func after(seconds, namespaces int) *control.Measures {
	m := &control.Measures{PID: 7, Started: began, UptimeNS: int64(seconds) * 1e9, Listeners: 1, BoundsNS: []int64{10000, 20000}}
	for i := range namespaces {
		n := uint64(seconds * (i + 1))
		m.Namespaces = append(m.Namespaces, control.NamespaceMeasures{Subsystem: "nqn.2026-11.org.example:disk", NSID: i + 1, Ready: true, Export: "/srv/disk", ReadBytes: n * 4096,
			Commands: []control.CommandMeasures{{Op: "read", Command: control.Latencies{SumNS: int64(n) * 15000, Buckets: [][2]uint64{{1, n}}}, Store: control.Latencies{SumNS: int64(n) * 5000, Buckets: [][2]uint64{{0, n}}}}}})
	}
	m.Controllers = []control.Controller{{Subsystem: "nqn.2026-11.org.example:disk", ID: 1, Host: "\x1b]0;owned\a", Peer: "192.0.2.9", Connected: began,
		Queues: []control.Queue{{ID: 1, Depth: 32, Commands: uint64(seconds)}}}}
	m.Shards = []control.ShardMeasures{{BusyNS: int64(seconds) * 5e8}}
	m.Devices = []control.DeviceMeasures{{Device: "192.0.2.1", Counters: []rdmatransport.Counter{{Name: "packets_in", N: uint64(seconds) * 10}, {Name: "drop_crc"}}}}
	return m
}

// newTestScreen returns a screen with two readings.
func newTestScreen(namespaces int) *screen {
	s := newScreen("/run/nvmeof/target.sock", activity.Namespaces, "")
	s.read(after(1, namespaces), nil, began.Add(time.Second))
	s.read(after(2, namespaces), nil, began.Add(2*time.Second))
	return s
}

func shown(s *screen) string { return ansi.Strip(strings.Join(s.lines(), "\n")) }

func press(s *screen, keys string) {
	for key := range strings.FieldsSeq(keys) {
		s.press(key)
	}
}

func TestScreen(t *testing.T) {
	const want = `nvmeof top  /run/nvmeof/target.sock  process 7  up 2s                   12:00:02
6.0 IOPS  read 0.0 MB/s  write 0 MB/s  in flight 0  shards 50% of 1
p50/p99 all 15µs/20µs store 5.0µs/9.9µs  fabric in - out -
3 namespaces  1 host  1 controller  errors 0/s  retransmits 0/s  drops 0/s
 1 namespaces  2 hosts  3 controllers  4 shards  5 transport 
NAMESPACE               IOPS   READ  WRITE INFL    P50    P99 ST-P50 ST-P99  ERR
…1.org.example:disk/3    3.0    0.0      0    0 15.0µs 19.9µs 5.00µs 9.90µs    0
…1.org.example:disk/2    2.0    0.0      0    0 15.0µs 19.9µs 5.00µs 9.90µs    0
…1.org.example:disk/1    1.0    0.0      0    0 15.0µs 19.9µs 5.00µs 9.90µs    0


1-3 of 3 by IOPS          1-5 view  <> sort  r reverse  / filter  ? help  q quit`
	s := newTestScreen(3)
	s.height = 12
	if got := shown(s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestKeys presses keys, and checks the first row and the last line.
func TestKeys(t *testing.T) {
	for _, c := range []struct{ keys, first, foot string }{
		{"", "disk/40", "1-17 of 40 by IOPS "},
		{"r", "disk/1 ", "1-17 of 40 by IOPS reversed"},
		{"r r", "disk/40", "by IOPS "},
		{"<", "disk/1 ", "by NAMESPACE"},
		{"< <", "disk/1 ", "by EXPORT"},
		{"> s", "disk/1 ", "by WRITE"},
		{"down down", "disk/38", "3-19 of 40"},
		{"pgdown", "disk/23", "18-34 of 40"},
		{"end", "disk/17", "24-40 of 40"},
		{"end up home", "disk/40", "1-17 of 40"},
		{"space pgup up", "disk/40", "1-17 of 40"},
		{"/ / 4 0 enter", "disk/40", `1-1 of 1 by IOPS, with "/40"`},
		{"/ / 4 0 backspace", "disk/40", "filter: /4_"},
		{"/ x space y ctrl+u q", "", "filter: q_"},
		{"/ x y z enter", "", `0-0 of 0 by IOPS, with "xyz"`},
		{"/ x y z esc", "disk/40", "1-17 of 40"},
		{"/ x y z enter esc", "disk/40", "1-17 of 40"},
		{"2", `\x1b]0;owned\a`, "1-1 of 1 by IOPS"},
		{"3", "192.0.2.9", "1-1 of 1 by IOPS"},
		{"4", "50.0", "1-1 of 1 by BUSY%"},
		{"5 r", "drop_crc", "1-2 of 2 by RATE reversed"},
		{"5 tab", "disk/40", "1-17 of 40"},
		{"6 0 f1", "disk/40", "1-17 of 40"},
		{"? q", "disk/40", "1-17 of 40"},
	} {
		s := newTestScreen(40)
		press(s, c.keys)
		all := strings.Split(shown(s), "\n")
		if len(all) != 24 || !strings.Contains(all[6]+" ", c.first) || !strings.Contains(all[23]+" ", c.foot) {
			t.Errorf("%s: %d lines, %q and %q", c.keys, len(all), all[6], all[23])
		}
	}
	for _, keys := range []string{"q", "ctrl+c"} {
		if !newTestScreen(1).press(keys) {
			t.Errorf("%s does not end it", keys)
		}
	}
	s := newTestScreen(1)
	press(s, "?")
	if got := shown(s); !strings.Contains(got, "Any key leaves this.") || !strings.Contains(got, "not for each namespace") {
		t.Errorf("help\n%s", got)
	}
}

// TestLost checks that the loss of a target is shown with its last data, until it is back.
func TestLost(t *testing.T) {
	s := newScreen("s", activity.Hosts, "")
	if got := shown(s); !strings.Contains(got, "reading") {
		t.Errorf("before the first reading\n%s", got)
	}
	s.read(nil, errors.New("gone\x1b[2J\nfar"), began)
	if got := shown(s); !strings.Contains(got, `no answer, trying again: gone\x1b[2J far`) {
		t.Errorf("at first\n%s", got)
	}
	s.read(after(1, 1), nil, began)
	s.read(after(2, 1), nil, began.Add(time.Second))
	s.read(nil, errors.New("gone"), began.Add(time.Minute))
	if got := shown(s); !strings.Contains(got, "no answer since 12:00:01, trying again: gone") || !strings.Contains(got, "192.0.2.9") || !strings.Contains(got, "1.0") {
		t.Errorf("lost\n%s", got)
	}
	again := after(1, 1)
	again.PID, again.Started = 8, began.Add(time.Hour)
	s.read(again, nil, began.Add(time.Hour))
	if got := shown(s); strings.Contains(got, "no answer") || !strings.Contains(got, "process 8") || !strings.Contains(got, "up 1s (rates since then)") {
		t.Errorf("back\n%s", got)
	}
	before := s.report
	s.read(again, nil, began.Add(2*time.Hour))
	if s.report != before {
		t.Error("the same reading makes another report")
	}
}

// TestFits checks that everything fits the screen, and that no control characters from hosts reach the terminal.
func TestFits(t *testing.T) {
	for _, keys := range []string{"1", "2", "3", "4", "5", "?", "/ a", "end"} {
		for _, size := range [][2]int{{80, 24}, {79, 23}, {20, 5}, {1, 1}, {0, 0}, {300, 100}} {
			for _, err := range []error{nil, errors.New(strings.Repeat("no\x1b", 100))} {
				s := newTestScreen(30)
				s.width, s.height = size[0], size[1]
				press(s, keys)
				if err != nil {
					s.read(nil, err, began)
				}
				all := s.lines()
				if len(all) > s.height {
					t.Errorf("%s, %v: %d lines", keys, size, len(all))
				}
				for _, line := range all {
					if text := ansi.Strip(line); ansi.StringWidth(line) > s.width || nvmeof.Visible(text) != text {
						t.Errorf("%s, %v: %q", keys, size, line)
					}
				}
			}
		}
	}
}

// TestUpdate sends the messages of the terminal.
func TestUpdate(t *testing.T) {
	p := &program{screen: newTestScreen(3), interval: time.Second}
	ends := func(msg tea.Msg) bool {
		_, cmd := p.Update(msg)
		return cmd != nil && fmt.Sprintf("%T", cmd()) == "tea.QuitMsg"
	}
	p.Update(tea.WindowSizeMsg{Width: 120, Height: 30})
	if v := p.View(); !v.AltScreen || len(strings.Split(v.Content, "\n")) != 30 || !strings.Contains(v.Content, "STATE") {
		t.Errorf("view %q", v.Content)
	}
	p.Update(tea.PasteMsg{Content: "no filter"})
	p.Update(tea.KeyPressMsg{Code: '/', Text: "/"})
	p.Update(tea.PasteMsg{Content: "disk/2\x1b"})
	p.Update(tea.KeyPressMsg{Code: tea.KeyBackspace})
	if ends(tea.KeyPressMsg{Code: 'q', Text: "q"}) || p.filter != `disk/2\x1q` {
		t.Errorf("filter %q", p.filter)
	}
	p.Update(tea.KeyPressMsg{Code: tea.KeyEsc})
	if _, cmd := p.Update(reading{measures: after(3, 3), at: began}); cmd == nil || p.report.Uptime != 3 {
		t.Errorf("a reading is not taken, %+v", p.report)
	}
	if !ends(tea.KeyPressMsg{Code: 'q', Text: "q"}) || !ends(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}) {
		t.Error("it does not end")
	}
}

// TestShow runs the screen: a key ends it, and so does the end of its context.
func TestShow(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	in, keys := io.Pipe()
	defer keys.Close()
	ended := make(chan error, 1)
	run := func(ctx context.Context) {
		ended <- show(ctx, newScreen(socket, 0, ""), time.Hour, in, io.Discard, []string{"TERM=xterm"})
	}
	go run(t.Context())
	_, _ = keys.Write([]byte("q"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	run(ctx)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was interrupted", err)
	}
	p := &program{screen: newScreen(socket, 0, ""), ctx: t.Context(), client: control.NewClient(socket)}
	if _, cmd := p.Update(due{}); cmd == nil {
		t.Error("no reading when it is due")
	}
	if got, _ := p.Init()().(reading); got.err == nil || !strings.Contains(got.err.Error(), "no target responds at") {
		t.Errorf("reading %+v", got)
	}
}
