package disk

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// Whatever two queues are requested to do, the kernel never has two calls of which one writes what the other accesses,
// and every request ends.
func TestConflictsNeverMeet(t *testing.T) {
	s, d := scripted(t, thin)
	qs := []*tester{d.queue(t, s), d.queue(t, s)}
	rnd := rand.New(rand.NewPCG(1, 1))
	tag := uint64(0)
	inFlight := 0
	for round := 0; round < 5000 || inFlight > 0; round++ {
		qt := qs[rnd.IntN(2)]
		if round < 5000 && inFlight < 16 && rnd.IntN(2) == 0 {
			tag++
			first := rnd.Int64N(12)
			length := (1 + rnd.Int64N(12-first)) * qt.block
			op := backend.Op(rnd.IntN(5))
			qt.submit(tag, op, first*qt.block, length)
			inFlight++
		}
		if n := len(qt.calls); n > 0 {
			i := rnd.IntN(n)
			moved := int64(len(qt.calls[i].buf))
			if rnd.IntN(8) == 0 && moved > qt.block {
				moved -= qt.block
			}
			qt.end(i, moved, 0)
		}
		qt.poll()
		inFlight -= len(qt.results)
		for tag, err := range qt.results {
			if err != nil {
				t.Fatalf("request %d: %v", tag, err)
			}
		}
		clear(qt.results)
		if round > 100_000 {
			t.Fatalf("%d requests never end", inFlight)
		}
	}
}

// A waiting request keeps its place before later ones that conflict with it.
func TestWaitingInOrder(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	b := qt.block
	qt.submit(1, backend.OpRead, 0, b)
	qt.submit(2, backend.OpWrite, 0, 2*b)
	qt.submit(3, backend.OpWrite, b, b)
	qt.submit(4, backend.OpRead, 8*b, b)
	qt.wantCalls("read 0+4096", "read 32768+4096")
	qt.end(1, b, 0)
	qt.want(4, nil)
	qt.end(0, b, 0)
	qt.want(1, nil)
	qt.wantCalls("write 0+8192")
	qt.succeed()
	qt.want(2, nil)
	qt.wantCalls("write 4096+4096")
	qt.succeed()
	qt.want(3, nil)
}

// BAD-INPUT: the mark of a writer that went away expires only while someone polls, so a waiting read keeps its shard
// awake.
func TestYieldingKeepsAwake(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	reader, writer := d.queue(t, s), d.queue(t, s)
	reader.submit(1, backend.OpRead, 0, qt.block)
	writer.submit(2, backend.OpWrite, 0, qt.block) // refused by the reader
	if err := writer.q.Close(); err != nil {
		t.Fatal(err)
	}
	reader.succeed()
	reader.want(1, nil)
	qt.submit(3, backend.OpRead, 0, qt.block)
	for len(qt.calls) == 0 {
		before := qt.wakes.Load()
		qt.wantNothing()
		if len(qt.calls) == 0 && qt.wakes.Load() == before {
			t.Fatal("queue lets its owner sleep although only another turn can help")
		}
	}
	qt.succeed()
	qt.want(3, nil)
}

// Releasing blocks wakes the queue that waits for them.
func TestReleaseWakesOtherQueue(t *testing.T) {
	s, d := scripted(t, thin)
	a, b := d.queue(t, s), d.queue(t, s)
	a.submit(1, backend.OpWrite, 0, a.block)
	b.submit(2, backend.OpWrite, 0, a.block)
	b.wantNothing()
	b.wantCalls()
	a.succeed()
	a.want(1, nil)
	if b.wakes.Load() == 0 {
		t.Fatal("waiting queue was not notified")
	}
	b.poll()
	b.succeed()
	b.want(2, nil)
}

// Row 79 of the catalogue of bad input: short read or write, EINTR, EAGAIN.
func TestShortAndInterrupted(t *testing.T) {
	for _, op := range []backend.Op{backend.OpRead, backend.OpWrite} {
		s, d := scripted(t, thin)
		qt := d.queue(t, s)
		b := qt.block
		buf := backendtest.Buffer(int(4*b), 4096)
		qt.submit(1, op, b, 4*b, func(r *backend.Request) { r.Buf = buf })
		rest := func(offset int64) {
			t.Helper()
			qt.wantNothing()
			if len(qt.calls) != 1 || qt.calls[0].offset != b+offset || !sameMemory(qt.calls[0], buf[offset:]) {
				t.Fatalf("%v: calls %v, want one from byte %d on", op, qt.calls, offset)
			}
		}
		rest(0)
		qt.end(0, b, 0)
		rest(b)
		qt.end(0, 0, unix.EINTR)
		rest(b)
		qt.end(0, b+100, 0) // not whole blocks: the part is repeated
		rest(2 * b)
		for range 50 {
			qt.end(0, 0, unix.EAGAIN)
			rest(2 * b)
		}
		qt.succeed()
		qt.want(1, nil)
		if !s.blocks.Free() {
			t.Error("blocks are still held")
		}
	}
}

func TestEndlessEAGAIN(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpRead, 0, qt.block)
	for len(qt.calls) > 0 {
		qt.end(0, 0, unix.EAGAIN)
		qt.poll()
	}
	qt.want(1, unix.EAGAIN)
}

// The kernel makes no progress. (For a file that was truncated see contract_test.go.)
func TestNoProgress(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpRead, 0, 2*qt.block)
	qt.end(0, 0, 0)
	qt.want(1, backend.ErrOutOfRange) // the kernel says it ends there
	qt.submit(2, backend.OpWrite, 0, 2*qt.block)
	qt.end(0, 0, 0)
	qt.want(2, unix.EIO)
}

// Row 79 of the catalogue of bad input: errors of the backend. None of them latches the store if the call is not also a
// sync.
func TestErrors(t *testing.T) {
	tests := []struct {
		op    backend.Op
		errno unix.Errno
		want  error
	}{
		{backend.OpRead, unix.EIO, unix.EIO},
		{backend.OpWrite, unix.EIO, unix.EIO},
		{backend.OpWriteZeroes, unix.EIO, unix.EIO},
		{backend.OpDeallocate, unix.EIO, unix.EIO},
		{backend.OpWrite, unix.ENOSPC, backend.ErrNoSpace},
		{backend.OpWrite, unix.EDQUOT, backend.ErrNoSpace},
		{backend.OpWriteZeroes, unix.ENOSPC, backend.ErrNoSpace},
		{backend.OpWrite, unix.EROFS, backend.ErrReadOnly},
		{backend.OpWrite, unix.EBADF, backend.ErrReadOnly},
		{backend.OpDeallocate, unix.EPERM, backend.ErrReadOnly},
		{backend.OpRead, unix.EBADF, unix.EBADF},
		{backend.OpRead, unix.EINVAL, unix.EINVAL},
		{backend.OpWrite, unix.EINVAL, unix.EINVAL},
	}
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	for _, tt := range tests {
		qt.submit(1, tt.op, 0, qt.block)
		qt.end(0, 0, tt.errno)
		qt.want(1, tt.want)
	}
	if s.sync.failed() {
		t.Error("an error of one request latched the store")
	}
	if !s.blocks.Free() {
		t.Error("blocks are still held")
	}
}

// The methods of zeroing and freeing, and what follows if one is not supported.
func TestZeroing(t *testing.T) {
	const m = 1 << 20
	no := unix.EOPNOTSUPP
	device := sparse
	device.Device = true
	tests := []struct {
		name    string
		cfg     Config
		op      backend.Op
		change  func(*backend.Request)
		length  int64
		answers []unix.Errno // followed by success
		want    []string
	}{
		{"thick", thick, backend.OpWriteZeroes, nil, m, nil, []string{"zero 0+1048576"}},
		{"thin", thin, backend.OpWriteZeroes, nil, m, nil, []string{"punch 0+1048576"}},
		{"deallocate", sparse, backend.OpWriteZeroes, deallocate, m, nil, []string{"punch 0+1048576"}},
		{"deallocate, and keep", thick, backend.OpWriteZeroes, deallocate, m, nil, []string{"zero 0+1048576"}},
		{"deallocate, keep, no zeroing", thick, backend.OpWriteZeroes, deallocate, m, []unix.Errno{no},
			[]string{"zero 0+1048576", "write 0+1048576"}},
		{"long", thick, backend.OpWriteZeroes, nil, 9 * m, nil, []string{"zero 0+8388608", "zero 8388608+1048576"}},
		{"no zeroing", thick, backend.OpWriteZeroes, nil, m + 4096, []unix.Errno{no},
			[]string{"zero 0+1052672", "write 0+1048576", "write 1048576+4096"}},
		{"no punching", thin, backend.OpWriteZeroes, nil, m, []unix.Errno{no}, []string{"punch 0+1048576", "zero 0+1048576"}},
		{"neither", thin, backend.OpWriteZeroes, nil, m, []unix.Errno{no, unix.EINVAL},
			[]string{"punch 0+1048576", "zero 0+1048576", "write 0+1048576"}},
		{"durable", thick, backend.OpWriteZeroes, fua, m, nil, []string{"zero 0+1048576", "sync"}},
		{"durable by writing", thick, backend.OpWriteZeroes, fua, m, []unix.Errno{no},
			[]string{"zero 0+1048576", "write durably 0+1048576"}},
		{"keep", thick, backend.OpDeallocate, nil, 9 * m, nil, nil},
		{"free", sparse, backend.OpDeallocate, nil, 9 * m, nil, []string{"punch 0+8388608", "punch 8388608+1048576"}},
		{"free a device", device, backend.OpDeallocate, nil, 9 * m, []unix.Errno{no},
			[]string{"punch 0+8388608", "discard 0+8388608", "discard 8388608+1048576"}},
		{"a device that does not free", device, backend.OpDeallocate, nil, 9 * m, []unix.Errno{no, no},
			[]string{"punch 0+8388608", "discard 0+8388608"}},
		{"zero a device", device, backend.OpWriteZeroes, deallocate, m, []unix.Errno{no},
			[]string{"punch 0+1048576", "zero 0+1048576"}},
		{"nothing to free with", sparse, backend.OpDeallocate, nil, 9 * m, []unix.Errno{no}, []string{"punch 0+8388608"}},
		{"free nothing", sparse, backend.OpDeallocate, nil, 0, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, d := scripted(t, tt.cfg)
			qt := d.queue(t, s)
			if tt.change == nil {
				tt.change = func(*backend.Request) {}
			}
			qt.submit(1, tt.op, 0, tt.length, tt.change)
			for _, errno := range tt.answers {
				qt.end(0, 0, errno)
				qt.poll()
			}
			for len(qt.calls) > 0 {
				if c := qt.calls[0]; c.kind == callWrite && slices.ContainsFunc(c.buf, func(b byte) bool { return b != 0 }) {
					t.Error("writes something else than zeroes")
				}
				qt.succeed()
				qt.poll()
			}
			qt.want(1, nil)
			if !slices.Equal(d.started, tt.want) {
				t.Errorf("calls %q, want %q", d.started, tt.want)
			}
		})
	}
}

// What was learned about the file system is remembered.
func TestUnsupportedIsRemembered(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpWrite, 0, qt.block, fua)
	qt.submit(2, backend.OpDeallocate, 1<<20, qt.block)
	qt.end(0, 0, unix.EOPNOTSUPP)
	qt.end(0, 0, unix.EOPNOTSUPP)
	qt.want(2, nil)
	qt.wantCalls("write 0+4096")
	qt.succeed()
	qt.wantNothing()
	qt.wantCalls("sync")
	qt.succeed()
	qt.want(1, nil)
	qt.submit(3, backend.OpDeallocate, 1<<20, qt.block)
	qt.want(3, nil)
	qt.submit(4, backend.OpWrite, 0, qt.block, fua)
	qt.wantCalls("write 0+4096")
	qt.end(0, 0, unix.EOPNOTSUPP)
	qt.want(4, unix.EOPNOTSUPP)
}

// A long range is abandoned at its present position when its queue is closed.
func TestCloseDropsTheRest(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpDeallocate, 0, 32<<20)
	qt.submit(2, backend.OpWrite, 0, qt.block)
	if err := qt.q.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.started, []string{"punch 0+8388608"}) {
		t.Errorf("calls %q, want one", d.started)
	}
	if !s.blocks.Free() {
		t.Error("blocks are still held")
	}
	if !qt.q.Idle() {
		t.Error("closed queue is not idle")
	}
}

func TestMediaErrorNamesTheFile(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpWrite, 8192, qt.block)
	qt.end(0, 0, unix.EIO)
	qt.poll()
	want := "write of 4096 bytes at 8192 in " + s.cfg.Name + ": input/output error"
	if err := qt.results[1]; err == nil || err.Error() != want || !errors.Is(err, unix.EIO) {
		t.Errorf("error %q, want %q", err, want)
	}
}
