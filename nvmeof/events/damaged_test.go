package events

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSpoilt: a file that is emptied, shortened or removed while the log uses it has all events again after the
// next one, and that is reported. Another file in its place is not changed.
func TestSpoilt(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string) error
		said  string
		kept  bool
	}{
		"emptied": {func(p string) error { return os.Truncate(p, 0) }, "was truncated", true},
		"cut":     {func(p string) error { return os.Truncate(p, recordSize+10) }, "was truncated", true},
		"removed": {os.Remove, "was removed", true},
		"moved":   {func(p string) error { return os.Rename(p, p+".1") }, "", false},
		"replaced": {func(p string) error {
			return errors.Join(os.Remove(p), os.WriteFile(p, []byte("another"), 0o600))
		}, "another file is in its place", false},
		"overwritten": {func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("another ", 100000)), 0o600)
		}, "was overwritten", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events")
			var said []string
			l, err := Open(path, Config{Entries: MinEntries, Failed: func(err error) { said = append(said, fmt.Sprint(err)) }})
			if err != nil {
				t.Fatal(err)
			}
			l.file.cancel()
			<-l.file.ended // the test writes instead
			record := func(text string) {
				l.Record(Event{Kind: Store, Text: text})
				l.writeNow()
			}
			record("a")
			record("b")
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			record("c")
			record("d")
			if all := strings.Join(said, "; "); !strings.Contains(all, c.said) || c.said == "" && all != "" || c.kept && !strings.HasSuffix(all, "<nil>") {
				t.Errorf("said %q, want %q", all, c.said)
			}
			if err := l.file.f.Close(); err != nil {
				t.Fatal(err)
			}
			if !c.kept {
				if now, _ := os.ReadFile(path); string(now) != string(before) {
					t.Error("what is in its place was changed")
				}
				return
			}
			id, _, _ := strings.Cut(l.ID(), ".")
			l = reopen(t, path, MinEntries)
			if got := texts(l.After(0, 0)); !slices.Equal(got, []string{"store a", "store b", "store c", "store d"}) || !strings.HasPrefix(l.ID(), id+".") || l.Stats().Damaged != 0 {
				t.Errorf("the next start has %q of log %s, was %s; %+v", got, l.ID(), id, l.Stats())
			}
		})
	}
}
