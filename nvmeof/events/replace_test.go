package events

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// TestReplacePowerFails: a power failure while the number of entries changes loses no event, whatever number the
// file is then opened with.
func TestReplacePowerFails(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		path := filepath.Join(disk.Dir, "events")
		l := reopen(t, path, MinEntries)
		for _, s := range []string{"a", "b", "c"} {
			l.Record(Event{Kind: Store, Text: s})
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		disk.Begin()
		l = reopen(t, path, 2*MinEntries)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(l.ID(), ".")
		disk.EveryCrash(func(m *faultyfs.Image) {
			l, err := Open(path, Config{Entries: MinEntries})
			if err != nil {
				t.Fatalf("after %d changes%s: %v", m.After, m.Lost, err)
			}
			defer l.Close()
			if all := l.After(0, 0); len(all) != 3 || all[2].Text != "c" || l.Stats().Damaged != 0 || !strings.HasPrefix(l.ID(), id+".") {
				t.Errorf("after %d changes%s: log %s has %q, and %d records are damaged", m.After, m.Lost, l.ID(), texts(all), l.Stats().Damaged)
			}
		})
	})
}

// TestReplaced: the new file has the mode of the old one and is locked. A file that cannot be replaced is kept.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events")
	l := reopen(t, path, MinEntries)
	l.Record(Event{Kind: Store, Text: "a"})
	if err := errors.Join(l.Close(), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, path, 2*MinEntries)
	if _, err := Open(path, Config{}); err == nil || !strings.Contains(err.Error(), "another target uses it") {
		t.Errorf("the new file: %v", err)
	}
	l.Record(Event{Kind: Store, Text: "b"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	want(t, reopen(t, path, 2*MinEntries), "store a", "store b")
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestNotReplaced: if no new file can be created, the old one keeps its events.
func TestNotReplaced(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		path := filepath.Join(disk.Dir, "events")
		l := reopen(t, path, MinEntries)
		l.Record(Event{Kind: Store, Text: "a"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		disk.Space(1)
		if _, err := Open(path, Config{Entries: 2 * MinEntries}); err == nil || !strings.Contains(err.Error(), "check its directory, or keep 80") {
			t.Error(err)
		}
		want(t, reopen(t, path, MinEntries), "store a")
	})
}
