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

// openKeeping opens a file with some content, or creates it.
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
	if s.allocation.whole == 0 && !s.allocation.sparse {
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

// TestMissing: a fully allocated file that was truncated and extended again between two checks reports how much is
// lost, until that is written again.
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

// TestMissingOfExtended: what Extend added counts too.
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

// TestNothingMissing: nothing is missing from a file that Refresh saw shorter, nor from one that a host zeroes, for
// which XFS allocates new storage.
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
	t.Run("zeroes", func(t *testing.T) {
		s, _ := openKeeping(t, Config{}, missingData())
		carryOut(t, s, backend.Request{Op: backend.OpWriteZeroes, Length: missingSize})
		wantMissing(t, s, 0, 0)
		if _, is := s.Steady(func() {}); !is {
			t.Error("a range is made zero for ever")
		}
	})
}

// TestMissingOfThin: from a file with holes, storage lost between two checks is missing, but not what a host
// deallocated or what Refresh saw cut off.
func TestMissingOfThin(t *testing.T) {
	for name, content := range map[string][]byte{"thin": missingData(), "with a hole": append(make([]byte, 0, 2*missingSize), missingData()...)} {
		s, path := openKeeping(t, Config{Thin: name == "thin"}, content)
		if name != "thin" {
			if err := errors.Join(s.Close(), os.Truncate(path, 2*missingSize)); err != nil {
				t.Fatal(err)
			}
			var err error
			if s, err = Open(path, Config{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
		}
		if !s.allocation.sparse {
			t.Skip("this file system may give storage back")
		}
		size := s.Info().Size
		wantMissing(t, s, 0, 0)
		carryOut(t, s, backend.Request{Op: backend.OpDeallocate, Length: 1 << 20})
		wantMissing(t, s, 0, 0)
		emptied(t, path, size)
		wantMissing(t, s, missingSize-1<<20-slack, missingSize-1<<20+slack)
		if err := os.Truncate(path, 4096); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Refresh(); err != nil {
			t.Fatal(err)
		}
		wantMissing(t, s, missingSize-1<<20-slack, missingSize-1<<20+slack)
	}
}

// carryOut executes a request on a store.
func carryOut(t *testing.T, s *Store, r backend.Request) {
	t.Helper()
	q, err := s.NewQueue(1, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	q.Submit([]backend.Request{r})
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
		runtime.Gosched()
	}
	if got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
}
