package events

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func texts(list []Event) (out []string) {
	for _, e := range list {
		s := string(e.Kind) + " " + e.Text
		if e.Count > 0 {
			s += fmt.Sprintf(" x%d", e.Count)
		}
		out = append(out, s)
	}
	return out
}

func want(t *testing.T, l *Log, lines ...string) {
	t.Helper()
	if got := strings.Join(texts(l.After(0, 0)), "\n"); got != strings.Join(lines, "\n") {
		t.Errorf("events:\n%s\nwant:\n%s", got, strings.Join(lines, "\n"))
	}
}

// TestEqualEvents: the first one is recorded at once, the others as a count when their time has passed.
func TestEqualEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		for port := range 50 {
			l.Record(Event{Kind: Refused, Host: "nqn.h", Address: fmt.Sprintf("127.91.1.1:%d", port), Text: "not allowed"})
		}
		l.Record(Event{Kind: Change, Text: "a"})
		l.Record(Event{Kind: Change, Text: "a"})
		want(t, l, "refused not allowed", "config a", "config a")
		time.Sleep(foldTime)
		want(t, l, "refused not allowed", "config a", "config a", "refused not allowed x49")
	})
}

// TestFlood: neither one address with ever new names nor many addresses displace other events.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Entries: MinEntries})
		l.Record(Event{Kind: Store, Text: "failed"})
		l.Record(Event{Kind: Connect, Text: "host"})
		for i := range 100 {
			l.Record(Event{Kind: Refused, Address: "127.91.1.1:1", Text: fmt.Sprint(i)})
		}
		if n := len(l.After(0, 0)); n != 2+perAddress+1 {
			t.Errorf("%d events of one address", n-2)
		}
		for i := range 1000 {
			l.Record(Event{Kind: Refused, Address: fmt.Sprintf("127.91.%d.%d:1", 2+i/250, i%250), Text: "x"})
			if i%20 == 0 {
				time.Sleep(time.Second)
			}
		}
		all := l.After(0, 0)
		if len(all) != 2+MinEntries/int(parts) || all[0].Text != "failed" || all[1].Text != "host" {
			t.Errorf("kept %d: %q", len(all), texts(all))
		}
		for i := range 100 {
			l.Record(Event{Kind: Refused, Address: fmt.Sprintf("127.91.9.%d:1", i), Text: "y"})
		}
		if l.Stats().Suppressed == 0 {
			t.Error("no bound in a second")
		}
	})
}

// TestRateOfCounts: for the rate, events that stand for others count at the time when they are added.
func TestRateOfCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		record := func(i int, text string) {
			l.Record(Event{Kind: Refused, Address: fmt.Sprintf("127.91.3.%d:1", i), Text: text})
		}
		for i := range 2 * perSecond {
			record(i/2, "x") // each twice
		}
		time.Sleep(foldTime)
		before := l.Last()
		for i := range 2 * perSecond {
			record(100+i, "y")
		}
		if n := l.Last() - before; n > perSecond {
			t.Errorf("%d events in a second", n)
		}
		time.Sleep(time.Second)
		all := l.After(before, 0)
		if last := all[len(all)-1]; last.Count != 2*perSecond {
			t.Errorf("%d events are said to be beyond the rate", last.Count)
		}
	})
}

// TestNewest: each part has its share of the newest events, whether or not it is full.
func TestNewest(t *testing.T) {
	l := New(Config{Entries: MinEntries})
	for i := range 100 {
		l.Record(Event{Kind: Store, Text: fmt.Sprint(i)})
		if i%40 == 1 {
			l.Record(Event{Kind: ANA, Text: fmt.Sprint(i)})
		}
	}
	if got := texts(l.Newest(4)); !slices.Equal(got, []string{"store 99", "store 98", "store 97", "store 96", "ana 81", "ana 41", "ana 1"}) {
		t.Errorf("%q", got)
	}
	all := l.After(0, 0)
	slices.Reverse(all)
	if got := l.Newest(MaxEntries); !slices.Equal(got, all) {
		t.Errorf("%q, want %q", texts(got), texts(all))
	}
	if (*Log)(nil).Newest(1) != nil || len(l.Newest(-1)) != 0 {
		t.Error("there is something")
	}
}

// BenchmarkNewest reads a full log, which a host can cause as often as it likes.
func BenchmarkNewest(b *testing.B) {
	l := New(Config{Entries: MaxEntries})
	for i := range MaxEntries {
		r := &l.rings[i%int(parts)]
		r.entries[r.n], r.n = Event{Seq: uint64(i) + 1, Text: "t"}, r.n+1
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Newest(256)
	}
}

// TestWait: a follower gets each event once, also those that are only counted.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan error)
		go func() {
			var seq uint64
			for {
				if err := l.Wait(ctx, seq); err != nil {
					done <- err
					return
				}
				list := l.After(seq, 2)
				got = append(got, texts(list)...)
				seq = list[len(list)-1].Seq
			}
		}()
		synctest.Wait()
		for range 3 {
			l.Record(Event{Kind: Refused, Text: "a"})
		}
		l.Record(Event{Kind: Listener, Text: "b"})
		l.Record(Event{Kind: ANA, Text: "c"})
		time.Sleep(2 * foldTime)
		cancel()
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
		if s := strings.Join(got, ", "); s != "refused a, listener b, ana c, refused a x2" {
			t.Error(s)
		}
	})
}

// TestNoLog: a nil Log keeps nothing.
func TestNoLog(t *testing.T) {
	var l *Log
	l.Record(Event{Kind: Store})
	if l.After(0, 0) != nil || l.Last() != 0 || l.ID() != "" || l.Resume("", 3) != 0 || l.Stats() != (Stats{}) || l.Close() != nil {
		t.Error("it has something")
	}
}

func TestBegin(t *testing.T) {
	l := New(Config{})
	l.Begin("one")
	l.Record(Event{Kind: Stop, Text: "end"})
	l.Begin("two")
	l.Begin("three")
	all := l.After(0, 0)
	if len(all) != 5 || all[3].Kind != Unclean || all[4].Text != "three" {
		t.Errorf("%q", texts(all))
	}
}
