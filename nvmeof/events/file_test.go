package events

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func reopen(t *testing.T, path string, entries int) *Log {
	t.Helper()
	l, err := Open(path, Config{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestRestart: numbers and the ID continue, each event is there once, and the oldest of a part are replaced first,
// whatever their order in the file.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	l := reopen(t, path, MinEntries)
	for i := range 20 {
		l.Record(Event{Kind: Store, Text: fmt.Sprint(i)})
	}
	l.Record(Event{Kind: Connect, Host: "nqn.h", Text: "host"})
	id := l.ID()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, path, MinEntries)
	if file, _, _ := strings.Cut(id, "."); !strings.HasPrefix(l.ID(), file+".") || l.ID() == id || l.Last() != 21 {
		t.Errorf("log %s at %d, was %s at 21", l.ID(), l.Last(), id)
	}
	l.Record(Event{Kind: Store, Text: "20"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, path, 4*MinEntries)
	all := l.After(0, 0)
	if len(all) != 17 || all[0].Text != "5" || all[15].Host != "nqn.h" || all[16].Text != "20" || all[16].Seq != 22 {
		t.Errorf("%q", texts(all))
	}
}

// TestResume: a client that has seen events which were lost in a crash gets the new ones with their numbers, and no
// event twice.
func TestResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	l := reopen(t, path, MinEntries)
	l.Record(Event{Kind: Store, Text: "written"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Record(Event{Kind: Store, Text: "lost"})
	l.Record(Event{Kind: Store, Text: "lost as well"})
	before, seen := l.ID(), l.Last()
	l = reopen(t, path, MinEntries)
	for _, s := range []string{"start", "listener", "host"} {
		l.Record(Event{Kind: Store, Text: s})
	}
	for _, x := range []struct {
		id        string
		seq, want uint64
	}{{before, seen, 1}, {before, 1, 1}, {before, 0, 0}, {l.ID(), 3, 3}, {l.ID(), 9, 0}, {"", 3, 3}, {"", 9, 0}, {"another", 3, 0}} {
		if got := l.Resume(x.id, x.seq); got != x.want {
			t.Errorf("after %d of %q: after %d, want %d", x.seq, x.id, got, x.want)
		}
	}
}

// TestResumeAfterTwo: a client that was away for two restarts misses nothing, although the numbers that it has seen
// were assigned again and are in the file.
func TestResumeAfterTwo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	record := func(l *Log, all ...string) {
		for _, s := range all {
			l.Record(Event{Kind: Store, Text: s})
		}
	}
	l := reopen(t, path, MinEntries)
	record(l, "1")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	record(l, "lost", "lost as well")
	before, seen := l.ID(), l.Last()
	l = reopen(t, path, MinEntries)
	record(l, "2", "3", "4")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	between := l.ID()
	for _, entries := range []int{MinEntries, 2 * MinEntries} { // a new file also has the runs
		l = reopen(t, path, entries)
		if got := texts(l.After(l.Resume(before, seen), 0)); !slices.Equal(got, []string{"store 2", "store 3", "store 4"}) {
			t.Errorf("%d entries: who has seen %d gets %q", entries, seen, got)
		}
		if got := l.Resume(between, 4); got != 4 {
			t.Errorf("%d entries: who has seen all resumes after %d", entries, got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range maxRuns {
		if err := reopen(t, path, MinEntries).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := reopen(t, path, MinEntries).Resume(before, seen); got != 0 {
		t.Errorf("after more restarts than are known it resumes after %d", got)
	}
}

// TestRunsDamaged: a torn record of the runs loses no event, and no client misses one.
func TestRunsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	l := reopen(t, path, MinEntries)
	l.Record(Event{Kind: Store, Text: "a"})
	if err := errors.Join(l.Close(), os.Truncate(path, runsOffset(MinEntries)+100)); err != nil {
		t.Fatal(err)
	}
	before := l.ID()
	l = reopen(t, path, MinEntries)
	want(t, l, "store a")
	if l.Resume(before, 1) != 0 || l.Stats().Damaged != 0 {
		t.Errorf("resumes after %d, %+v", l.Resume(before, 1), l.Stats())
	}
}

// TestDamage: only the damaged record is lost.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	l := reopen(t, path, MinEntries)
	for _, s := range []string{"a", "b", "c"} {
		l.Record(Event{Kind: Refused, Text: s})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[2*recordSize+100]++
	if err := os.WriteFile(path, text[:4*recordSize-7], 0o600); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, path, MinEntries)
	want(t, l, "refused a")
	if l.Stats().Damaged != 2 {
		t.Errorf("%+v", l.Stats())
	}
}

// TestForeignFile: a file that is not a log of events is not changed.
func TestForeignFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "other")
	for _, text := range []string{"x", "nvmeof-events 1 ", strings.Repeat("data ", 1000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Config{}); err == nil || !strings.Contains(err.Error(), "not a log of events") {
			t.Error(err)
		}
		if now, _ := os.ReadFile(path); string(now) != text {
			t.Error("the file was changed")
		}
	}
	const size = (MaxEntries + 3) * recordSize // an image of a disk that begins with zeroes
	image := filepath.Join(dir, "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, size)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(image, Config{}); err == nil || !strings.Contains(err.Error(), "not a log of events") {
		t.Error(err)
	}
	if info, err := os.Stat(image); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Open(dir, Config{}); err == nil {
		t.Error("a folder is opened")
	}
	if _, err := Open("/dev/null", Config{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	good := filepath.Join(dir, "events")
	reopen(t, good, MinEntries)
	if _, err := Open(good, Config{}); err == nil || !strings.Contains(err.Error(), "another target uses it") {
		t.Error(err)
	}
}

// A badDisk can be told to fail or hang.
type badDisk struct {
	err  error
	hang chan struct{}
}

func (d *badDisk) WriteAt(b []byte, _ int64) (int, error) {
	if d.hang != nil {
		<-d.hang
	}
	return len(b), d.err
}
func (d *badDisk) Sync() error  { return nil }
func (d *badDisk) Close() error { return nil }

// TestFullDisk: events that cannot be written are counted, and reported once.
func TestFullDisk(t *testing.T) {
	var notified []error
	l := New(Config{Failed: func(err error) { notified = append(notified, err) }})
	disk := &badDisk{err: errors.New("no space left on device")}
	l.file = &file{f: disk}
	for i := range 3 {
		l.Record(Event{Kind: Store, Text: fmt.Sprint(i)})
		l.writeNow()
	}
	disk.err = nil
	l.Record(Event{Kind: Store, Text: "3"})
	l.writeNow()
	l.writeNow()
	if l.Stats().Unwritten != 3 || len(notified) != 2 || notified[1] != nil {
		t.Errorf("%+v, notified %v", l.Stats(), notified)
	}
	want(t, l, "store 0", "store 1", "store 2", "store 3")
}

// TestLongEvent: a long event is shortened, and unprintable text does not lose the record.
func TestLongEvent(t *testing.T) {
	for _, s := range []string{strings.Repeat("x", 5000), strings.Repeat("\x00", 5000), strings.Repeat("é", 999) + "\xff"} {
		e := Event{Seq: 1, Kind: Refused, Time: time.Now(), Text: s, Host: s, Subsystem: s, Address: s}
		e.trim()
		b := encode(e)
		got, ok := decode(b)
		if len(b) != recordSize || !ok || got.Kind != Refused {
			t.Errorf("%d bytes, %v, %+v", len(b), ok, got)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(encode(Event{Seq: 1, Kind: Store, Text: "x"}))
	f.Add(encodeHeader("0123456789abcdef", 1024))
	f.Add(encodeRuns([]run{{"01234567", 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeHeader(b)
		decodeRuns(b)
		if e, ok := decode(b); ok {
			if again, ok := decode(encode(e)); !ok || again.Seq != e.Seq {
				t.Errorf("%+v became %+v", e, again)
			}
		}
	})
}

// TestCheck: Check recognizes a file that is not a log of events, and accepts a log or a file that can become one.
// It creates and changes nothing.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	l, err := Open(path("log"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Open(path("log"), Config{}); !errors.Is(err, ErrInUse) {
		t.Errorf("another opens it: %v", err)
	}
	for name, text := range map[string]string{"empty": "", "zeroes": string(make([]byte, 5000)), "other": "version: 1\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, right := range map[string]bool{"log": true, "none": true, "empty": true, "zeroes": true, "other": false, "": false} {
		if err := Check(path(name)); (err == nil) != right {
			t.Errorf("%q: %v", name, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 4 {
		t.Errorf("there are %v, %v", all, err)
	}
}
