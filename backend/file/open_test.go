package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func sizeOf(t testing.TB, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// run executes one request on a queue of its own.
func run(t testing.TB, s *Store, r backend.Request) error {
	t.Helper()
	wake := make(chan struct{}, 1)
	q, err := s.NewQueue(1, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	q.Submit([]backend.Request{r})
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
		<-wake
	}
	return got[0].Err
}

func readRequest(n int) backend.Request {
	return backend.Request{Op: backend.OpRead, Length: int64(n), Buf: backendtest.Buffer(n, 4096)}
}

func writeRequest(n int, fill byte) backend.Request {
	r := readRequest(n)
	r.Op = backend.OpWrite
	for i := range r.Buf {
		r.Buf[i] = fill
	}
	return r
}

func TestCreateAndReopen(t *testing.T) {
	path := tempFile(t)
	const size = 1 << 20
	s := openStore(t, path, Config{Size: size})
	if n, err := s.Allocated(); err != nil || n < size {
		t.Errorf("%d bytes allocated, want %d preallocated (%v)", n, size, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: want 0600", st.Mode(), err)
	}
	if err := run(t, s, writeRequest(4096, 7)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	closeStore(t, s) // a second call does nothing
	if _, err := s.Allocated(); err != backend.ErrClosed {
		t.Errorf("Allocated of a closed store: %v", err)
	}
	// At once: no ring that the kernel is still freeing holds the lock.
	for range 10 {
		s = openStore(t, path, Config{})
		r := readRequest(4096)
		if err := run(t, s, r); err != nil || r.Buf[0] != 7 || s.Info().Size != size {
			t.Fatalf("reopened: %d bytes, first %d, %v", s.Info().Size, r.Buf[0], err)
		}
		closeStore(t, s)
	}
	closeStore(t, openStore(t, path, Config{Size: size}))
	closeStore(t, openStore(t, path, Config{Size: 2 * size}))
	if n := sizeOf(t, path); n != 2*size {
		t.Errorf("file was extended to %d bytes, want %d", n, 2*size)
	}
	for _, thin := range []bool{false, true} { // a larger file keeps its size
		s := openStore(t, path, Config{Size: size, Thin: thin})
		if n := s.Info().Size; n != 2*size || sizeOf(t, path) != 2*size {
			t.Errorf("%d bytes are served of a file of %d, want %d", n, sizeOf(t, path), 2*size)
		}
		closeStore(t, s)
	}
}

func TestThin(t *testing.T) {
	s := openStore(t, tempFile(t), Config{Size: 64 << 20, Thin: true})
	defer closeStore(t, s)
	if n, err := s.Allocated(); err != nil || n != 0 {
		t.Errorf("%d bytes of a new thin store are allocated (%v)", n, err)
	}
}

func TestSizeAndBlock(t *testing.T) {
	tests := []struct {
		file, given int64
		block       int
		size        int64 // 0: refused
		wantBlock   int
	}{
		{0, 1 << 20, 0, 1 << 20, 4096},
		{0, 1 << 20, 512, 1 << 20, 512},
		{0, 1000_000, 0, 999_936, 512},
		{0, 1000_000, 4096, 999_424, 4096},
		{8191, 0, 0, 7680, 512},
		{8191, 0, 4096, 4096, 4096},
		{512, 0, 0, 512, 512},
		{511, 0, 0, 0, 0},
		{0, 0, 0, 0, 0},
		{4095, 0, 4096, 0, 0},
		{0, 4095, 4096, 0, 0},
	}
	for _, tt := range tests {
		path := tempFile(t)
		if tt.given == 0 {
			if err := os.WriteFile(path, make([]byte, tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(path, Config{Size: tt.given, BlockSize: tt.block})
		if tt.size == 0 {
			if _, statErr := os.Stat(path); err == nil || tt.given > 0 && !errors.Is(statErr, fs.ErrNotExist) {
				t.Errorf("%+v: opened, or left behind: %v, %v", tt, err, statErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if info := s.Info(); info.Size != tt.size || info.BlockSize != tt.wantBlock {
			t.Errorf("%+v: size %d, block %d", tt, info.Size, info.BlockSize)
		}
		closeStore(t, s)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		cfg  Config
		want string
	}{
		{filepath.Join(dir, "missing"), Config{}, "give a size to create it"},
		{filepath.Join(dir, "no", "such"), Config{Size: 4096}, "no such file or directory: create its directory first"},
		{dir, Config{Size: 4096}, "directory"},
		{fifo, Config{}, "special file"},
		{fifo, Config{ReadOnly: true}, "special file"},
		{"/dev/null", Config{Size: 4096}, "character device"},
		{dir, Config{BlockSize: 1024}, "block size 1024"},
		{dir, Config{Size: -1}, "negative"},
		{dir, Config{Engine: 9}, "engine 9"},
		{dir, Config{Threads: -1}, "threads"},
		{dir, Config{Size: 4096, ReadOnly: true}, "opened read-only"},
	}
	for _, tt := range tests {
		s, err := Open(tt.path, tt.cfg)
		if err == nil {
			closeStore(t, s)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("Open(%s, %+v): %v, want the path and %q", tt.path, tt.cfg, err, tt.want)
		}
	}
}

func TestReadOnly(t *testing.T) {
	path := tempFile(t)
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 8192)), 0o400); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, path, Config{ReadOnly: true})
	defer closeStore(t, s)
	other := openStore(t, path, Config{ReadOnly: true}) // readers share
	defer closeStore(t, other)
	if info := s.Info(); !info.ReadOnly || info.Deallocate || info.Volatile {
		t.Errorf("%+v", info)
	}
	r := readRequest(8192)
	if err := run(t, s, r); err != nil || r.Buf[8191] != 'x' {
		t.Errorf("read %q: %v", r.Buf[8191], err)
	}
	for _, op := range []backend.Op{backend.OpWrite, backend.OpWriteZeroes, backend.OpDeallocate} {
		r.Op = op
		if err := run(t, s, r); err != backend.ErrReadOnly {
			t.Errorf("%v: %v, want %v", op, err, backend.ErrReadOnly)
		}
	}
	if err := run(t, s, backend.Request{Op: backend.OpFlush}); err != nil {
		t.Errorf("flush: %v", err)
	}
}

func TestDirectAlignment(t *testing.T) {
	const dio = unix.STATX_DIOALIGN
	tests := []struct {
		mask, memory, offset uint32
		want                 alignment
		ok                   bool
	}{
		{0, 0, 0, alignment{}, true},
		{0, 512, 512, alignment{}, true}, // not filled in
		{dio, 512, 512, alignment{512, 512}, true},
		{dio, 4, 4096, alignment{4, 4096}, true},
		{dio, 0, 0, alignment{}, false},
		{dio, 512, 8192, alignment{}, false},
		{dio, 65536, 512, alignment{}, false},
		{dio, 3, 512, alignment{}, false},
	}
	for _, tt := range tests {
		st := unix.Statx_t{Mask: tt.mask, Dio_mem_align: tt.memory, Dio_offset_align: tt.offset}
		if got, ok := directAlignment(&st); got != tt.want || ok != tt.ok {
			t.Errorf("%+v: %v, %v", tt, got, ok)
		}
	}
}

// TestProbeAlignment: if the kernel does not report the requirements of direct I/O, they are tried out, with a result
// no larger than what the kernel would report.
func TestProbeAlignment(t *testing.T) {
	s := openStore(t, tempFile(t), Config{Size: 64 << 10})
	defer closeStore(t, s)
	got := probeAlignment(s.fd)
	var st unix.Statx_t
	if err := unix.Statx(s.fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st); err != nil {
		t.Fatal(err)
	}
	if want, ok := directAlignment(&st); s.direct && ok && want.offset > 0 && (got.offset < want.offset || got.memory < want.memory) {
		t.Errorf("%v, and the kernel says %v", got, want)
	}
	if got := probeAlignment(-1); got != (alignment{4096, 4096}) {
		t.Errorf("a file that cannot be read: %v", got)
	}
}

// forbid makes it an error to open the file for writing, or to create files in the folder.
func forbid(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(path, 0o500); err != nil {
			t.Fatal(err)
		}
		return
	}
	const immutable = 0x10 // FS_IMMUTABLE_FL
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|immutable)
	}
	if err != nil {
		f.Close()
		t.Skipf("root may do everything here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
			t.Error(err)
		}
		f.Close()
	})
}

// TestForbidden: a user who may not open a file is told which permission is missing.
func TestForbidden(t *testing.T) {
	path, dir := tempFile(t), t.TempDir()
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	forbid(t, path)
	forbid(t, dir)
	for path, want := range map[string]string{path: "may not read and write it", filepath.Join(dir, "new"): "may not create files in " + dir} {
		_, err := Open(path, Config{Size: 4096})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "chown") {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A drive with sectors of 4096 bytes, as far as that can be tested without one.
func TestBlockFollowsDrive(t *testing.T) {
	big := alignment{4096, 4096}
	if got := defaultBlock(1<<20+512, big); got != 4096 {
		t.Errorf("default block %d", got)
	}
	s := openStore(t, tempFile(t), Config{Size: 1 << 20, BlockSize: 512, Buffered: true})
	defer closeStore(t, s)
	if _, err := s.info(big); err == nil || !strings.Contains(err.Error(), "needs 4096") {
		t.Errorf("block of 512 bytes: %v", err)
	}
}

// A file that was exchanged between the check and the open is not served.
func TestConfirm(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := &Store{fd: int(dir.Fd())}
	if err := s.confirm(); err == nil || !strings.Contains(err.Error(), "no longer a regular file") {
		t.Errorf("a directory: %v", err)
	}
	s = openStore(t, tempFile(t), Config{Size: 1 << 20})
	defer closeStore(t, s)
	if flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v: must block", flags, err)
	}
}

func TestDirectOrNoted(t *testing.T) {
	s := openStore(t, tempFile(t), Config{Size: 1 << 20})
	defer closeStore(t, s)
	if s.Direct() == strings.Contains(strings.Join(s.Notes(), "\n"), "page cache") {
		t.Errorf("direct %v, notes %q: want one of both", s.Direct(), s.Notes())
	}
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil || (flags&unix.O_DIRECT != 0) != s.Direct() {
		t.Errorf("flags %#x, %v, but direct %v", flags, err, s.Direct())
	}
	b := openStore(t, tempFile(t), Config{Size: 1 << 20, Buffered: true, Engine: EngineThreads}) // io_uring has notes of its own
	defer closeStore(t, b)
	if b.Direct() || len(b.Notes()) > 0 || b.Info().Alignment != 1 {
		t.Errorf("buffered: direct %v, notes %q, %+v", b.Direct(), b.Notes(), b.Info())
	}
}

// TestNoRoom: a size for which there is no room is refused before the attempt takes all free space.
func TestNoRoom(t *testing.T) {
	dir := t.TempDir()
	var all unix.Statfs_t
	if err := unix.Statfs(dir, &all); err != nil {
		t.Fatal(err)
	}
	size := (int64(all.Bfree) + 1<<20) * all.Bsize
	path := filepath.Join(dir, "big")
	if _, err := Open(path, Config{Size: size}); !errors.Is(err, backend.ErrNoSpace) || !strings.Contains(err.Error(), " bytes are free: ") {
		t.Errorf("%d bytes where %d blocks of %d are free: %v", size, all.Bfree, all.Bsize, err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestSizeNotes: a note says if hosts see another size than the administrator may expect.
func TestSizeNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 1<<20+1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]string{
		0:             "the last 488 bytes of the file are less than a block of 512 and are not served",
		1 << 19:       "the file has 1049576 bytes, more than the configured size of 524288, and is served whole",
		1<<20 + 2*512: "",
	} {
		s, err := Open(path, Config{Size: size, BlockSize: 512})
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(s.Notes(), "\n")
		if !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "bytes") {
			t.Errorf("size %d: %q", size, notes)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := os.Truncate(path, 1<<20+1000); err != nil {
			t.Fatal(err)
		}
	}
}
