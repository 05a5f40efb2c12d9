package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

const missingSize = 4 << 20

func missingData() []byte { return bytes.Repeat([]byte{1}, missingSize) }

// openKeeping opens a file with a content, or makes it.
func openKeeping(t *testing.T, cfg Config, content []byte) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if content != nil {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.stock.whole == 0 && !cfg.Thin {
		t.Skip("this file system may give storage back")
	}
	return s, path
}

func wantMissing(t *testing.T, s *Store, least, most int64) {
	t.Helper()
	_, _ = s.Missing() // the second look counts
	if n, err := s.Missing(); err != nil || n < least || n > most {
		t.Errorf("%d bytes are missing, %v; want %d to %d", n, err, least, most)
	}
}

func emptied(t *testing.T, path string, size int64) {
	t.Helper()
	if err := errors.Join(os.Truncate(path, 0), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
}

// TestMissing: a file that had all its storage, and was cut short and made longer again between two looks at its size,
// says how much is gone, until that is written again.
func TestMissing(t *testing.T) {
	s, path := openKeeping(t, Config{}, missingData())
	wantMissing(t, s, 0, 0)
	emptied(t, path, missingSize)
	wantMissing(t, s, missingSize-64<<10, missingSize)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(missingData(), 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, s, 0, 0)
}

// TestMissingOfExtended: what was added by Extend counts too.
func TestMissingOfExtended(t *testing.T) {
	s, path := openKeeping(t, Config{Size: missingSize}, nil)
	if err := s.Extend(2 * missingSize); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, s, 0, 0)
	emptied(t, path, 2*missingSize)
	wantMissing(t, s, missingSize+1, 2*missingSize)
}

// TestNothingMissing: nor is it of a file that Refresh saw shorter, of one that is thin, and of one that a host makes zero, for which
// XFS takes other storage.
func TestNothingMissing(t *testing.T) {
	t.Run("seen shorter", func(t *testing.T) {
		s, path := openKeeping(t, Config{}, missingData())
		for _, n := range []int64{missingSize / 2, missingSize} {
			if err := os.Truncate(path, n); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Refresh(); err != nil {
				t.Fatal(err)
			}
			wantMissing(t, s, 0, 0)
		}
	})
	t.Run("thin", func(t *testing.T) {
		s, path := openKeeping(t, Config{Thin: true}, missingData())
		emptied(t, path, missingSize)
		wantMissing(t, s, 0, 0)
	})
	t.Run("zeroes", func(t *testing.T) {
		s, _ := openKeeping(t, Config{}, missingData())
		q, err := s.NewQueue(1, func() {})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		q.Submit([]backend.Request{{Op: backend.OpWriteZeroes, Length: missingSize}})
		var got [1]backend.Result
		for q.Poll(got[:]) == 0 {
			runtime.Gosched()
		}
		if got[0].Err != nil {
			t.Fatal(got[0].Err)
		}
		wantMissing(t, s, 0, 0)
		if !s.Steady(func() {}) {
			t.Error("a range is made zero for ever")
		}
	})
}
