package file

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

var (
	_ backend.Resizer = (*Store)(nil)
	_ backend.Latcher = (*Store)(nil)
	_ backend.Roomer  = (*Store)(nil)
)

// refresh requires this size afterwards.
func refresh(t *testing.T, s *Store, size int64) {
	t.Helper()
	before := s.Info().Size
	changed, err := s.Refresh()
	if err != nil || s.Info().Size != size || changed != (before != size) {
		t.Fatalf("Refresh: changed %v, %v; size %d, then %d, want %d", changed, err, before, s.Info().Size, size)
	}
}

// BAD-INPUT: namespace shrunk under I/O. The file is cut off, then made longer.
func TestCutOff(t *testing.T) {
	for _, engine := range engines(t) {
		path := tempFile(t)
		s := openStore(t, path, Config{Size: 1 << 20, BlockSize: 4096, Engine: engine})
		q, err := s.NewQueue(4, nil) // a queue that was open before remains usable
		if err != nil {
			t.Fatal(err)
		}
		do := func(r backend.Request) error {
			q.Submit([]backend.Request{r})
			var got [1]backend.Result
			for q.Poll(got[:]) == 0 {
			}
			return got[0].Err
		}
		last := readRequest(4096)
		last.Offset = 1<<20 - 4096
		cut := func(size int64) {
			t.Helper()
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
		cut(512<<10 + 100)
		if err := do(last); err != backend.ErrOutOfRange {
			t.Errorf("read beyond the new end: %v", err)
		}
		refresh(t, s, 512<<10)
		last.Op = backend.OpWrite
		if err := do(last); err != backend.ErrOutOfRange || sizeOf(t, path) != 512<<10+100 {
			t.Errorf("write beyond the new end: %v, file has %d bytes", err, sizeOf(t, path))
		}
		cut(2 << 20)
		refresh(t, s, 2<<20)
		refresh(t, s, 2<<20)
		last.Offset = 2<<20 - 4096
		if err := do(last); err != nil {
			t.Errorf("write before the new end: %v", err)
		}
		cut(0)
		refresh(t, s, 0)
		if err := do(last); err != backend.ErrOutOfRange {
			t.Errorf("write to nothing: %v", err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		closeStore(t, s)
		if _, err := s.Refresh(); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("Refresh of a closed store: %v", err)
		}
	}
}

// NUSE is correct for sparse files: it grows with writes and shrinks with deallocation.
func TestAllocated(t *testing.T) {
	s := openStore(t, tempFile(t), Config{Size: 64 << 20, Thin: true})
	defer closeStore(t, s)
	want := func(least, most int64) {
		t.Helper()
		if n, err := s.Allocated(); err != nil || n < least || n > most {
			t.Errorf("%d bytes are allocated, %v, want %d to %d", n, err, least, most)
		}
	}
	want(0, 0)
	w := writeRequest(1<<20, 1)
	w.Offset, w.FUA = 8<<20, true
	if err := run(t, s, w); err != nil {
		t.Fatal(err)
	}
	want(1<<20, 2<<20)
	for _, op := range []backend.Op{backend.OpDeallocate, backend.OpWriteZeroes} {
		r := backend.Request{Op: op, Offset: 8 << 20, Length: 1 << 20}
		if err := run(t, s, r); err != nil {
			t.Fatal(err)
		}
		want(0, 64<<10)
	}
}

// A fully allocated file keeps its storage: a host that deallocates does not make its own later writes run out of
// space. A file that already has holes frees what it can.
func TestKeepsStorage(t *testing.T) {
	const size = 8 << 20
	for _, tt := range []struct {
		name  string
		cfg   Config
		keeps bool
		make  func(path string) error
	}{
		{"preallocated here", Config{Size: size}, true, func(string) error { return nil }},
		{"written before", Config{}, true, func(path string) error { return os.WriteFile(path, make([]byte, size), 0o600) }},
		{"thin", Config{Thin: true}, false, func(path string) error { return os.WriteFile(path, make([]byte, size), 0o600) }},
		{"sparse", Config{}, false, func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size))
		}},
	} {
		for _, engine := range engines(t) {
			path := tempFile(t)
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			tt.cfg.Engine = engine
			s := openStore(t, path, tt.cfg)
			if s.Info().Deallocate == tt.keeps {
				t.Errorf("%s: Info.Deallocate is %v", tt.name, !tt.keeps)
			}
			w := writeRequest(4<<20, 1)
			w.FUA = true
			if err := run(t, s, w); err != nil {
				t.Fatal(err)
			}
			before, err := s.Allocated()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []backend.Request{
				{Op: backend.OpDeallocate, Offset: 0, Length: 2 << 20},
				{Op: backend.OpWriteZeroes, Deallocate: true, Offset: 2 << 20, Length: 1 << 20},
			} {
				if err := run(t, s, r); err != nil {
					t.Fatal(err)
				}
			}
			after, err := s.Allocated()
			if err != nil || tt.keeps && after < size || !tt.keeps && after > before-(2<<20) {
				t.Errorf("%s, %v: %d bytes allocated, %d after %d were deallocated, %v", tt.name, engine, before, after, 3<<20, err)
			}
			r := readRequest(4 << 20)
			if err := run(t, s, r); err != nil {
				t.Fatal(err)
			}
			if b := r.Buf[0]; b != 0 && (b != 1 || !tt.keeps) {
				t.Errorf("%s: a block that was deallocated has %d", tt.name, b)
			}
			if r.Buf[2<<20] != 0 || r.Buf[3<<20-1] != 0 || r.Buf[3<<20] != 1 {
				t.Errorf("%s: zeroes are not where they were written", tt.name)
			}
			closeStore(t, s)
		}
	}
}

// Storage is allocated for what is added, too, unless the file is thin.
func TestExtend(t *testing.T) {
	for _, thin := range []bool{false, true} {
		path := tempFile(t)
		s := openStore(t, path, Config{Size: 1 << 20, Thin: thin})
		if err := s.Extend(3 << 20); err != nil {
			t.Fatal(err)
		}
		refresh(t, s, 3<<20)
		if n, err := s.Allocated(); err != nil || n >= 3<<20 == thin {
			t.Errorf("thin %v: %d bytes allocated, %v", thin, n, err)
		}
		if err := s.Extend(2 << 20); err != nil || sizeOf(t, path) != 3<<20 {
			t.Errorf("Extend to less than there is: %v, %d bytes", err, sizeOf(t, path))
		}
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Extend(4 << 20); err == nil || sizeOf(t, path) != 7 || sizeOf(t, path+".old") != 3<<20 {
			t.Errorf("Extend of a file that was replaced: %v, %d bytes, and %d of the new one", err, sizeOf(t, path+".old"), sizeOf(t, path))
		}
		closeStore(t, s)
		if err := s.Extend(4 << 20); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("Extend of a closed store: %v", err)
		}
	}
}

func TestRoom(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, Config{Size: 1 << 20})
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	free, total, err := s.Room()
	if err != nil || free <= 0 || free > total || total != int64(st.Blocks)*st.Bsize {
		t.Errorf("room for %d of %d bytes, %v; statfs says %d blocks of %d", free, total, err, st.Blocks, st.Bsize)
	}
	closeStore(t, s)
	if _, _, err := s.Room(); err != backend.ErrClosed {
		t.Errorf("Room of a closed store: %v", err)
	}
}
