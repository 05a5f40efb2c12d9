package rbd

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// The conformance suite looks for this flag.
var _ = flag.Bool("long", false, "four times as long for what goes on for some time")

// TestContract runs the suite on a fake library; test/ceph runs it on a cluster.
func TestContract(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Store { return fakeStore(t, newFake(t, 20<<20), Config{}) })
}

// TestContractOfStripes has objects so small that most compared and written ranges cross an object boundary.
func TestContractOfStripes(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Store {
		i := newFake(t, 4<<20)
		i.unit = 8192
		i.old.Store(true)
		return fakeStore(t, i, Config{BlockSize: 512})
	})
}

func TestParseName(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Name
	}{
		{"rbd/disk", Name{Pool: "rbd", Image: "disk"}},
		{"p/n/i", Name{Pool: "p", Namespace: "n", Image: "i"}},
		{"p/n/i@s 1", Name{Pool: "p", Namespace: "n", Image: "i", Snapshot: "s 1"}},
	} {
		got, err := ParseName(tt.in)
		if err != nil || got != tt.want || got.String() != tt.in {
			t.Errorf("%s: %+v (%v), %v", tt.in, got, got, err)
		}
	}
	for _, in := range []string{"", "disk", "/disk", "rbd/", "a/b/c/d", "a//c", "a/b@", "a/b@c@d", "a/b@c/d", "a/b\x00"} {
		if got, err := ParseName(in); err == nil {
			t.Errorf("%q is %+v", in, got)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"p/i", Config{Size: -1}, "negative"},
		{"p/i", Config{BlockSize: 1024}, "512 or 4096"},
		{"p/i@s", Config{Size: 1 << 20}, "opened read-only"},
		{"p/i", Config{ReadOnly: true, Size: 1}, "opened read-only"},
		{"p/i", Config{ID: "client.admin"}, "leave"},
		{"p/i", Config{Conf: "a\x00"}, "zero byte"},
		{"disk", Config{}, "POOL/IMAGE"},
	} {
		if _, err := Open(tt.name, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %+v: %v, want %s", tt.name, tt.cfg, err, tt.want)
		}
	}
}

func TestGeometry(t *testing.T) {
	odd := newFake(t, 1<<20+512)
	if info := fakeStore(t, odd, Config{}).Info(); info.BlockSize != 512 || info.Size != 1<<20+512 {
		t.Errorf("an odd size: %+v", info)
	}
	if info := fakeStore(t, odd, Config{BlockSize: 4096}).Info(); info.Size != 1<<20 {
		t.Errorf("an odd size in blocks of 4096: %+v", info)
	}
	for _, tt := range []struct {
		size int
		unit int64
		want string
	}{{256, 4 << 20, "less than one block"}, {1 << 20, 512, "not be written atomically"}} {
		i := newFake(t, tt.size)
		i.unit = tt.unit
		_, err := openFake("p/i", Config{BlockSize: 4096}, func(*Config) (image, error) { return i, nil })
		if err == nil || !strings.Contains(err.Error(), tt.want) || !i.closed {
			t.Errorf("%d bytes, units of %d: %v, closed %v", tt.size, tt.unit, err, i.closed)
		}
	}
}

func TestSnapshot(t *testing.T) {
	i := newFake(t, 1<<20)
	i.lockErr, i.features = unix.EBUSY, 0 // neither is needed
	s, err := openFake("p/i@s", Config{}, func(*Config) (image, error) { return i, nil })
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	if err := do(t, s, backend.Request{Op: backend.OpWrite, Length: 4096, Buf: b}); err != backend.ErrReadOnly {
		t.Errorf("write: %v", err)
	}
	for _, r := range []backend.Request{{Op: backend.OpRead, Length: 4096, Buf: b}, {Op: backend.OpFlush}} {
		if err := do(t, s, r); err != nil {
			t.Errorf("%v: %v", r.Op, err)
		}
	}
}

func TestLocked(t *testing.T) {
	i := newFake(t, 1<<20)
	i.lockErr, i.locked = unix.EROFS, "client.4123"
	open := func() error {
		_, err := openFake("p/i", Config{}, func(*Config) (image, error) { return i, nil })
		return err
	}
	var locked *LockedError
	if err := open(); !errors.As(err, &locked) || !strings.Contains(err.Error(), "client client.4123") {
		t.Errorf("locked: %v", err)
	}
	i.locked = ""
	if err := open(); err == nil || !strings.Contains(err.Error(), "another client") {
		t.Errorf("locked by nobody knows whom: %v", err)
	}
	i.features = 0
	if err := open(); err == nil || !strings.Contains(err.Error(), "rbd feature enable p/i exclusive-lock") {
		t.Errorf("without the feature: %v", err)
	}
	i.shutErr = unix.ETIMEDOUT
	if err := open(); !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("no geometry: %v", err)
	}
}

// TestErrors: the library's errors are translated to those of the contract.
func TestErrors(t *testing.T) {
	i := newFake(t, 1<<20)
	s := fakeStore(t, i, Config{})
	b := make([]byte, 3*4096)
	for _, tt := range []struct {
		op    backend.Op
		errno unix.Errno
		want  error
	}{
		{backend.OpWrite, unix.ENOSPC, backend.ErrNoSpace},
		{backend.OpWrite, unix.EDQUOT, backend.ErrNoSpace},
		{backend.OpRead, unix.EINVAL, backend.ErrOutOfRange},
		{backend.OpRead, unix.EIO, unix.EIO},
		{backend.OpFlush, unix.ETIMEDOUT, unix.ETIMEDOUT},
		{backend.OpCompareAndWrite, unix.EILSEQ, backend.ErrMiscompare},
	} {
		i.errno.Store(int32(tt.errno))
		r := backend.Request{Op: tt.op, Length: 4096, Buf: b[:4096]}
		if tt.op == backend.OpCompareAndWrite {
			r.Buf = b
		}
		if err := do(t, s, r); !errors.Is(err, tt.want) {
			t.Errorf("%v, errno %d: %v, want %v", tt.op, tt.errno, err, tt.want)
		}
	}
	if err := s.Failed(); err != nil {
		t.Errorf("failed: %v", err)
	}
	if err := (&LibraryError{"librbd.so.1: not found"}).Error(); !strings.Contains(err, "librbd1") {
		t.Error(err)
	}
}

// TestBlocklisted: nothing is acknowledged until an administrator has the image opened again, and late successes of the
// old client are errors too.
func TestBlocklisted(t *testing.T) {
	first, second := newFake(t, 1<<20), newFake(t, 1<<20)
	images := []image{first, second}
	var opened []Config
	lost := 0
	s, err := openFake("p/i", Config{Size: 1 << 20, Lost: func() { lost++ }}, func(cfg *Config) (image, error) {
		i := images[0]
		images, opened = images[1:], append(opened, *cfg)
		return i, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	write := backend.Request{Op: backend.OpWrite, Length: 4096, Buf: b}
	first.silent.Store(true)
	q.Submit([]backend.Request{{Tag: 7, Op: backend.OpWrite, Offset: 8192, Length: 4096, Buf: b}}) // ends later, with success
	first.silent.Store(false)
	first.errno.Store(int32(blocklisted))
	if err := do(t, s, write); !errors.Is(err, backend.ErrFailed) || !errors.Is(err, backend.ErrFenced) || !errors.Is(err, blocklisted) {
		t.Errorf("the first write: %v", err)
	}
	first.errno.Store(0)
	for _, r := range []backend.Request{write, {Op: backend.OpRead, Length: 4096, Buf: b}, {Op: backend.OpFlush}} {
		if err := do(t, s, r); err != errFenced {
			t.Errorf("%v: %v, want %v", r.Op, err, errFenced)
		}
	}
	if err := s.Failed(); err == nil || !strings.Contains(err.Error(), "blocklisted") || lost != 1 {
		t.Errorf("failed: %v, told %d times", err, lost)
	}
	if err := s.Clear(); err != nil || s.Failed() != nil {
		t.Fatalf("clear: %v, %v", err, s.Failed())
	}
	first.answer()
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
	}
	if got[0].Tag != 7 || got[0].Err != errFenced {
		t.Errorf("a write of the old client: %+v", got[0])
	}
	if err := doOn(t, q, write); err != nil {
		t.Errorf("a write of the new client: %v", err)
	}
	if opened[1].Size != 0 {
		t.Error("an image that is missing would have been created")
	}
	if err := errors.Join(q.Close(), s.Close()); err != nil || !first.closed || !second.closed {
		t.Errorf("close: %v; %v, %v", err, first.closed, second.closed)
	}
	if err := s.Clear(); err != backend.ErrClosed {
		t.Errorf("clear after close: %v", err)
	}
}

func TestLockLost(t *testing.T) {
	i := newFake(t, 1<<20)
	s := fakeStore(t, i, Config{})
	i.errno.Store(int32(unix.EROFS))
	_ = do(t, s, backend.Request{Op: backend.OpFlush})
	if err := s.Failed(); err == nil || !strings.Contains(err.Error(), "taken its exclusive lock") {
		t.Errorf("failed: %v", err)
	}
	i.lockErr = unix.EBUSY
	if err := s.Clear(); err == nil || s.Failed() == nil {
		t.Errorf("cleared while another has the lock: %v", err)
	}
}

// TestHung: Close does not wait forever, and memory that the cluster may still use is kept until it answers.
func TestHung(t *testing.T) {
	i := newFake(t, 1<<20)
	i.closeHold = make(chan struct{})
	s := fakeStore(t, i, Config{})
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	i.silent.Store(true)
	b := make([]byte, 4096)
	q.Submit([]backend.Request{{Op: backend.OpRead, Length: 4096, Buf: b}, {Op: backend.OpFlush}})
	var hung *HungError
	for range 2 {
		if err := q.Close(); !errors.As(err, &hung) {
			t.Fatalf("close: %v", err)
		}
	}
	if s.Close() == nil {
		t.Error("the store closed while its queue is in use")
	}
	i.answer()
	<-q.(*queue).left
	if err := q.Close(); err != nil {
		t.Errorf("close when it answers: %v", err)
	}
	if err := s.Close(); !errors.As(err, &hung) || !strings.Contains(err.Error(), "ceph -s") {
		t.Errorf("close of the store: %v", err)
	}
	close(i.closeHold)
	if err := s.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestResize(t *testing.T) {
	i := newFake(t, 1<<20)
	s := fakeStore(t, i, Config{Size: 2 << 20})
	if got := s.Info().Size; got != 2<<20 {
		t.Errorf("a smaller one is %d bytes long", got)
	}
	if err := s.Extend(1 << 20); err != nil || len(i.data) != 2<<20 {
		t.Errorf("shorter: %v", err)
	}
	if err := s.Extend(3<<20 + 512); err != nil {
		t.Error(err)
	}
	if changed, err := s.Refresh(); !changed || err != nil || s.Info().Size != 3<<20 {
		t.Errorf("refresh: %v, %v, %d", changed, err, s.Info().Size)
	}
	if err := i.resize(1 << 20); err != nil { // by another client, and not noticed yet
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	for _, offset := range []int64{1 << 20, 2 << 20} {
		if err := do(t, s, backend.Request{Op: backend.OpRead, Offset: offset, Length: 4096, Buf: b}); err != backend.ErrOutOfRange {
			t.Errorf("read at %d of an image that became shorter: %v", offset, err)
		}
	}
	if n, err := s.Allocated(); n != 0 || err != nil {
		t.Errorf("allocated: %d, %v", n, err)
	}
	i.features = featureExclusiveLock
	if n, err := s.Allocated(); n != 1<<20 || err != nil {
		t.Errorf("allocated, without fast-diff: %d, %v", n, err)
	}
	i.shutErr = unix.ETIMEDOUT
	_, err1 := s.Refresh()
	_, err2 := s.Allocated()
	for _, err := range []error{err1, err2, s.Extend(4 << 20)} {
		if !errors.Is(err, unix.ETIMEDOUT) {
			t.Errorf("a cluster that does not answer: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err1 = s.Refresh()
	_, err2 = s.Allocated()
	for _, err := range []error{err1, err2, s.Extend(4 << 20)} {
		if err != backend.ErrClosed {
			t.Errorf("of a closed store: %v", err)
		}
	}
}

// TestCalls: which call a request becomes, and that a range across a boundary takes two.
func TestCalls(t *testing.T) {
	i := newFake(t, 16<<20)
	i.kinds = make([]callKind, 0, 16)
	s := fakeStore(t, i, Config{})
	b := make([]byte, 3*8192)
	for _, tt := range []struct {
		r    backend.Request
		want []callKind
	}{
		{backend.Request{Op: backend.OpCompareAndWrite, Offset: 4<<20 - 8192, Length: 8192, Buf: b}, []callKind{callCompare}},
		{backend.Request{Op: backend.OpCompareAndWrite, Offset: 4<<20 - 4096, Length: 8192, Buf: b}, []callKind{callRead, callWrite}},
		{backend.Request{Op: backend.OpDeallocate, Length: 4096}, []callKind{callDiscard}},
		{backend.Request{Op: backend.OpWriteZeroes, Length: 16 << 20}, []callKind{callZero}},
	} {
		i.kinds = i.kinds[:0]
		if err := do(t, s, tt.r); err != nil {
			t.Errorf("%v: %v", tt.r.Op, err)
		}
		if !bytes.Equal(kindBytes(i.kinds), kindBytes(tt.want)) {
			t.Errorf("%v: calls %v, want %v", tt.r.Op, i.kinds, tt.want)
		}
	}
	i.old.Store(true)
	i.kinds = i.kinds[:0]
	for range 2 {
		if err := do(t, s, backend.Request{Op: backend.OpCompareAndWrite, Length: 8192, Buf: b}); err != nil {
			t.Error(err)
		}
	}
	if want := []callKind{callCompare, callRead, callWrite, callRead, callWrite}; !bytes.Equal(kindBytes(i.kinds), kindBytes(want)) {
		t.Errorf("an old library: calls %v, want %v", i.kinds, want)
	}
	if string(s.Mark()) != "cluster/1" {
		t.Errorf("mark %q", s.Mark())
	}
}

func kindBytes(kinds []callKind) (b []byte) {
	for _, k := range kinds {
		b = append(b, byte(k))
	}
	return b
}

// TestMapped: the end of a call reaches its consumer through memory outside the Go heap.
func TestMapped(t *testing.T) {
	r, err := newRing(3, mapped)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]outcome
	for id := range uint32(9) {
		r.begin(1)
		r.push(id, -int32(id))
		if r.wait(-1); r.reap(out[:]) != 1 || out[0] != (outcome{id, -int32(id)}) || r.ready() {
			t.Errorf("call %d: %+v", id, out[0])
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
