package memory

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// pool returns a pool that is closed when the test ends.
func pool(t testing.TB) *Pool {
	p := new(Pool)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// moved returns the same pool as another process opens it.
func moved(t testing.TB, p *Pool) *Pool {
	t.Helper()
	next, err := OpenPool(p.File())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	return next
}

// taken returns how many bytes of memory the file of a pool uses.
func taken(t testing.TB, p *Pool) int64 {
	t.Helper()
	f, _ := p.File()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Blocks * 512
}

// TestOpen: a store opened from another process's pool has its content, its mark and its used pages, and is independent
// once the pool is closed.
func TestOpen(t *testing.T) {
	const page = 4096
	running := pool(t)
	other := newStore(t, Config{Size: 1 << 20, Pool: running})
	first := newStore(t, Config{Size: 8<<20 - 512, BlockSize: 512, Pool: running})
	q, err := first.NewQueue(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	buf := bytes.Repeat([]byte{0xa5}, 3*page)
	drive(t, q, backend.Request{Op: backend.OpWrite, Offset: 5 * page, Length: 3 * page, Buf: buf})
	drive(t, q, backend.Request{Op: backend.OpWrite, Offset: 8<<20 - 1024, Length: 512, Buf: buf[:512]})
	if !first.TryLease(20*page, page, false) { // ends with its process
		t.Fatal("no lease")
	}
	s, err := moved(t, running).Open(first.Offset())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Close(), running.Close(), first.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.Mark(), first.Mark()) || s.Info() != first.Info() {
		t.Errorf("mark %x, %+v; want %x, %+v", s.Mark(), s.Info(), first.Mark(), first.Info())
	}
	q = openQueue(t, s)
	back := make([]byte, 3*page)
	drive(t, q, backend.Request{Op: backend.OpRead, Offset: 5 * page, Length: 3 * page, Buf: back})
	if !bytes.Equal(back, buf) || s.Memory()[8<<20-1024] != 0xa5 {
		t.Error("the content is another")
	}
	if n, _ := s.Allocated(); n != 4*page {
		t.Errorf("%d bytes are allocated", n)
	}
	if !s.TryLease(20*page, page, true) {
		t.Error("a lease of the other process is there")
	}
	s.Release(20*page, page, true)
	drive(t, q, backend.Request{Op: backend.OpDeallocate, Length: 8<<20 - 512})
	if n, _ := s.Allocated(); n != page || s.Memory()[5*page] != 0 { // the last page is not only the store's
		t.Errorf("%d bytes are allocated after all but the last page were given back", n)
	}
}

// TestPoolRefuses files that are not files of movable stores and whose size could change while mapped.
func TestPoolRefuses(t *testing.T) {
	ordinary, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer ordinary.Close()
	p := pool(t)
	s := newStore(t, Config{Size: 1 << 20, Pool: p})
	defer s.Close()
	f, end := p.File()
	for _, test := range []struct {
		f   *os.File
		end int64
	}{{ordinary, 0}, {f, -1 << 20}, {f, end + 1}, {f, math.MaxInt64 &^ 0xfff}} {
		if _, err := OpenPool(test.f, test.end); err == nil {
			t.Errorf("%s up to %d: opened", test.f.Name(), test.end)
		}
	}
	if f, end := new(Pool).File(); f != nil || end != 0 {
		t.Error("there is a file before there is a store")
	}
	if s := newStore(t, Config{Size: 4096}); s.Offset() != -1 {
		t.Error("a store that is in no pool says where it is")
	}
}

// TestOpenRefuses offsets without a store.
func TestOpenRefuses(t *testing.T) {
	p := pool(t)
	first := newStore(t, Config{Size: 1 << 20, Pool: p})
	s := newStore(t, Config{Size: 4 << 20, Pool: p})
	defer s.Close()
	defer first.Close()
	f, end := p.File()
	next := moved(t, p)
	wants := func(what string, offset int64) {
		if _, err := next.Open(offset); err == nil {
			t.Errorf("%s: opened", what)
		}
	}
	for what, offset := range map[string]int64{"negative": -4096, "behind the last": end, "in a page": s.Offset() + 512, "memory": s.at.memory} {
		wants(what, offset)
	}
	header := make([]byte, headerSize)
	if _, err := f.ReadAt(header, s.Offset()); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]struct {
		at int
		b  byte
	}{"other format": {14, '3'}, "other offset": {18, 0xff}, "no size": {26, 0}, "a size up to behind the end": {27, 0xff}, "part of a block": {24, 1}, "other blocks": {33, 1}} {
		changed := bytes.Clone(header)
		changed[change.at] = change.b
		if _, err := f.WriteAt(changed, s.Offset()); err != nil {
			t.Fatal(err)
		}
		wants(what, s.Offset())
	}
}

// TestPoolGivesBack: the memory of a closed store is freed, its place is never reused, and it is kept while another
// process may still take it over.
func TestPoolGivesBack(t *testing.T) {
	p := pool(t)
	filled := func(p *Pool) *Store {
		s := newStore(t, Config{Size: 1 << 20, Pool: p})
		copy(s.Memory(), bytes.Repeat([]byte{1}, 1<<20))
		return s
	}
	closed := func(s *Store) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	first := filled(p)
	closed(first)
	if n := taken(t, p); n != 0 {
		t.Errorf("%d bytes are taken after the only store was closed", n)
	}
	second := filled(p)
	if second.Offset() < first.at.end {
		t.Errorf("a store is at %d, where one was that ended at %d", second.Offset(), first.at.end)
	}
	next := moved(t, p)
	s, err := next.Open(second.Offset())
	if err != nil {
		t.Fatal(err)
	}
	closed(s)
	closed(filled(next)) // it ends after it left something where the first one continues
	if second.Memory()[5] != 1 {
		t.Error("a process that has not gone on with the memory has given it back")
	}
	third := newStore(t, Config{Size: 1 << 20, Pool: p})
	if third.Memory()[5] != 0 {
		t.Error("a new store has what another process has left")
	}
	next.Own()
	if s, err = next.Open(second.Offset()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	closed(second)
	closed(third)
	if s.Memory()[5] != 1 {
		t.Error("a process that has given up the memory has given it back")
	}
	closed(s)
	if n := taken(t, next); n > 16<<10 { // of third, whose place the record does not contain
		t.Errorf("%d bytes are taken after all stores were closed", n)
	}
	if _, err := New(Config{Size: 4096, Pool: p}); err == nil {
		t.Error("a store in a pool that is closed")
	}
}

// TestPoolIsOneDescriptor for any number of stores.
func TestPoolIsOneDescriptor(t *testing.T) {
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	p := pool(t)
	before := descriptors()
	for range 100 {
		s := newStore(t, Config{Size: 4 << 20, Pool: p})
		defer s.Close()
	}
	if n := descriptors() - before; n != 1 {
		t.Errorf("%d descriptors", n)
	}
}

// TestReadPopulatesNothing: reading blocks that were never written takes no memory.
func TestReadPopulatesNothing(t *testing.T) {
	p := pool(t)
	s := newStore(t, Config{Size: 8 << 20, Pool: p})
	q := openQueue(t, s)
	buf := bytes.Repeat([]byte{1}, 1<<20)
	drive(t, q, backend.Request{Op: backend.OpRead, Length: 1 << 20, Buf: buf})
	if n := taken(t, p); buf[0] != 0 || n > 64<<10 {
		t.Errorf("read %d, and the file takes %d bytes", buf[0], n)
	}
}

func BenchmarkTouch(b *testing.B) {
	for _, movable := range []bool{false, true} {
		b.Run(fmt.Sprintf("movable=%v", movable), func(b *testing.B) {
			const size = 256 << 20
			b.SetBytes(size)
			buf := make([]byte, 1<<17)
			cfg := Config{Size: size}
			if movable {
				cfg.Pool = pool(b)
			}
			for b.Loop() {
				s := newStore(b, cfg)
				q, err := s.NewQueue(1, nil)
				if err != nil {
					b.Fatal(err)
				}
				for at := int64(0); at < size; at += int64(len(buf)) {
					drive(b, q, backend.Request{Op: backend.OpWrite, Offset: at, Length: int64(len(buf)), Buf: buf})
				}
				q.Close()
				s.Close()
			}
		})
	}
}
