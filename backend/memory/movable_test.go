package memory

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// TestOpen: a store that is opened from the file of another has its content, its mark and what is in
// use, and is one of its own once that is closed.
func TestOpen(t *testing.T) {
	const page = 4096
	first := newStore(t, Config{Size: 8<<20 - 512, BlockSize: 512, Movable: true})
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
	s, err := Open(first.File(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Close(), first.Close()); err != nil {
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
	if n, _ := s.Allocated(); n != page || s.Memory()[5*page] != 0 { // the last page is not the store's alone
		t.Errorf("%d bytes are allocated after all but the last page were given back", n)
	}
}

// TestOpenRefuses what is no file of a movable store, whose size could change under the mapping.
func TestOpenRefuses(t *testing.T) {
	ordinary, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer ordinary.Close()
	sealed := func(size int64, header string) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "test")
		t.Cleanup(func() { f.Close() })
		_, err = f.WriteAt([]byte(header), max(0, size-int64(os.Getpagesize())))
		if err = errors.Join(err, f.Truncate(size)); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return f
	}
	other := newStore(t, Config{Size: 1 << 20, Movable: true})
	defer other.Close()
	for name, f := range map[string]*os.File{"ordinary": ordinary, "empty": sealed(0, ""), "other format": sealed(1<<20, "nvmeof memory 2\n"),
		"no size": sealed(1<<20, headerName), "other size": sealed(1<<20, string(other.header()))} {
		if _, err := Open(f, Config{}); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if s := newStore(t, Config{Size: 4096}); s.File() != nil {
		t.Error("a store that is not movable has a file")
	}
}

// TestReadPopulatesNothing: reading what nobody has written takes no memory.
func TestReadPopulatesNothing(t *testing.T) {
	s := newStore(t, Config{Size: 8 << 20, Movable: true})
	q := openQueue(t, s)
	buf := bytes.Repeat([]byte{1}, 1<<20)
	drive(t, q, backend.Request{Op: backend.OpRead, Length: 1 << 20, Buf: buf})
	var stat unix.Stat_t
	if err := unix.Fstat(int(s.File().Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	if buf[0] != 0 || stat.Blocks*512 > 64<<10 {
		t.Errorf("read %d, and the file takes %d bytes", buf[0], stat.Blocks*512)
	}
}

func BenchmarkTouch(b *testing.B) {
	for _, movable := range []bool{false, true} {
		b.Run(fmt.Sprintf("movable=%v", movable), func(b *testing.B) {
			const size = 256 << 20
			b.SetBytes(size)
			buf := make([]byte, 1<<17)
			for b.Loop() {
				s := newStore(b, Config{Size: size, Movable: movable})
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
