package target

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) + seed
	}
	return b
}

// TestReadBack writes and reads through every data path: namespace 1 has leased memory, 2 has not; data is in host
// memory and in the capsule, aligned and not.
func TestReadBack(t *testing.T) {
	f := newFixture(t)
	f.export(newFakeStore(1 << 20))
	_, io := f.both()
	capsuleMemory := make([]byte, 12<<10)
	for !aligned(capsuleMemory, 4096) {
		capsuleMemory = capsuleMemory[1:]
	}
	for _, nsid := range []capsule.NSID{1, 2} {
		for _, c := range []struct {
			name      string
			n         int
			inCapsule int // offset in capsuleMemory, or -1
		}{
			{"one block", 512, -1}, {"4 KiB", 4096, -1}, {"128 KiB", 128 << 10, -1}, {"1 MiB", 1 << 20, -1},
			{"4 KiB in capsule", 4096, 0}, {"512 B in capsule, unaligned", 512, 16}, {"7 blocks in capsule", 3584, 0},
		} {
			t.Run(fmt.Sprintf("namespace %d, %s", nsid, c.name), func(t *testing.T) {
				io.t = t
				want := pattern(c.n, byte(nsid)+byte(c.n>>9))
				rw := capsule.ReadWrite{Blocks: uint32(c.n / 512)}
				write := ioCommand(capsule.IOWrite, nsid, rw, want)
				if c.inCapsule >= 0 {
					copy(capsuleMemory[c.inCapsule:], want)
					write.memory, write.inCapsule = nil, capsuleMemory[c.inCapsule:][:c.n]
				}
				io.wantOK(write)
				got := make([]byte, c.n)
				io.wantOK(ioCommand(capsule.IORead, nsid, rw, got))
				if !bytes.Equal(got, want) {
					t.Error("read back differs")
				}
			})
		}
	}
	io.t = t
}

// TestBadReadWrite is rows 53, 74, 75 and 83.
func TestBadReadWrite(t *testing.T) {
	f := newFixture(t)
	f.export(newFakeStore(1 << 20))
	_, io := f.both()
	length, rangeStatus := capsule.StatusSGLDataLength|dnr, capsule.StatusLBAOutOfRange|dnr
	for _, nsid := range []capsule.NSID{1, 2} {
		last := capsule.LBA(f.sub.table().Get(nsid).Volume.Blocks() - 1)
		for _, op := range []capsule.IOOpcode{capsule.IORead, capsule.IOWrite} {
			for _, c := range []struct {
				name string
				rw   capsule.ReadWrite
				n    int
				want capsule.Status
			}{
				{"last block", capsule.ReadWrite{SLBA: last, Blocks: 1}, 512, capsule.StatusSuccess},
				{"one past the end", capsule.ReadWrite{SLBA: last + 1, Blocks: 1}, 512, rangeStatus},
				{"across the end", capsule.ReadWrite{SLBA: last, Blocks: 2}, 1024, rangeStatus},
				{"SLBA all ones", capsule.ReadWrite{SLBA: math.MaxUint64, Blocks: 1}, 512, rangeStatus},
				{"SLBA + NLB wraps", capsule.ReadWrite{SLBA: math.MaxUint64, Blocks: 2}, 1024, rangeStatus},
				{"SLBA in bytes wraps", capsule.ReadWrite{SLBA: 1 << 55, Blocks: 1}, 512, rangeStatus},
				{"data too short", capsule.ReadWrite{Blocks: 2}, 512, length},
				{"data too long", capsule.ReadWrite{Blocks: 1}, 1024, length},
				{"no data", capsule.ReadWrite{Blocks: 1}, 0, length},
				{"above MDTS", capsule.ReadWrite{Blocks: 2049}, 512, func() capsule.Status {
					if nsid == 1 {
						return invalidField
					}
					return rangeStatus // namespace 2 is as large as MDTS
				}()},
				{"protection information", capsule.ReadWrite{Blocks: 1, PRINFO: 1}, 512, invalidField},
				{"PRACT", capsule.ReadWrite{Blocks: 1, PRINFO: 8}, 512, invalidField},
				{"directive", capsule.ReadWrite{Blocks: 1, DTYPE: 1}, 512, invalidField},
				{"hints", capsule.ReadWrite{Blocks: 1, DSM: 0xff, LR: true}, 512, capsule.StatusSuccess},
			} {
				t.Run(fmt.Sprintf("%v of namespace %d, %s", op, nsid, c.name), func(t *testing.T) {
					io.t = t
					cmd := ioCommand(op, nsid, c.rw, make([]byte, c.n))
					cmd.sqe.MPTR = 0xdeadbeefdeadbeef // row 59: ignored
					io.wantStatus(c.want, cmd)
				})
			}
			io.t = t
			for _, bad := range []capsule.NSID{0, 3, storage.MaxNamespace, storage.MaxNamespace + 1, 0xfffffffe, capsule.NSIDBroadcast} {
				io.wantStatus(capsule.StatusInvalidNamespace|dnr, ioCommand(op, bad, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
			}
		}
	}
	io.wantStatus(capsule.StatusInvalidNamespace|dnr, ioCommand(capsule.IOFlush, 0, nil, nil))
	io.wantStatus(length, ioCommand(capsule.IOFlush, 1, nil, make([]byte, 512)))
}

// TestFlush is row 80 for the command, and row 75 for NSID FFFFFFFFh.
func TestFlush(t *testing.T) {
	f := newFixture(t)
	a, b := newFakeStore(1<<20), newFakeStore(1<<20)
	f.export(a)
	f.export(b)
	_, io := f.both()
	flushes := func(s *fakeStore) (n int) {
		for _, r := range s.ops() {
			if r.Op == backend.OpFlush {
				n++
			}
		}
		return n
	}
	io.wantOK(ioCommand(capsule.IOFlush, 1, nil, nil)) // nothing volatile
	io.wantOK(ioCommand(capsule.IOFlush, 2, nil, nil))
	if flushes(a) != 1 || flushes(b) != 0 {
		t.Error("a flush of one namespace did not go there alone")
	}
	io.wantOK(ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil))
	if flushes(a) != 1 || flushes(b) != 1 {
		t.Error("a flush of all namespaces missed one")
	}
	b.set(false, errors.New("disk is gone"))
	io.wantStatus(capsule.StatusWriteFault, ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil))
}

// TestReadWithForceUnitAccess: data that is read is made durable before the host gets it.
func TestReadWithForceUnitAccess(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	io.wantOK(ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 1, FUA: true}, make([]byte, 512)))
	if ops := s.ops(); len(ops) != 2 || ops[0].Op != backend.OpRead || ops[1].Op != backend.OpFlush {
		t.Errorf("operations %+v, want a read and a flush", ops)
	}
	safe := newFakeStore(1 << 20)
	safe.info.Volatile = false
	f.export(safe)
	io.wantOK(ioCommand(capsule.IORead, 3, capsule.ReadWrite{Blocks: 1, FUA: true}, make([]byte, 512)))
	if ops := safe.ops(); len(ops) != 1 {
		t.Errorf("operations %+v of a store without a volatile cache", ops)
	}
}

func TestForceUnitAccess(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	for _, fua := range []bool{false, true} {
		io.wantOK(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 1, FUA: fua}, make([]byte, 512)))
		io.wantOK(ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{Blocks: 1, FUA: fua}, nil))
		for _, r := range s.ops() {
			if r.FUA != fua {
				t.Errorf("operation %d has FUA %v, want %v", r.Op, r.FUA, fua)
			}
		}
	}
}

// TestWriteZeroes is row 77.
func TestWriteZeroes(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	for _, nsid := range []capsule.NSID{1, 2} {
		io.wantOK(ioCommand(capsule.IOWrite, nsid, capsule.ReadWrite{Blocks: 16}, bytes.Repeat([]byte{1}, 8192)))
		io.wantOK(ioCommand(capsule.IOWriteZeroes, nsid, capsule.ReadWrite{SLBA: 3, Blocks: 5, DEAC: nsid == 2}, nil))
		got := make([]byte, 8192)
		io.wantOK(ioCommand(capsule.IORead, nsid, capsule.ReadWrite{Blocks: 16}, got))
		for i, b := range got {
			if zero := i >= 3*512 && i < 8*512; zero != (b == 0) {
				t.Fatalf("namespace %d: byte %d is %d", nsid, i, b)
			}
		}
		io.wantStatus(capsule.StatusLBAOutOfRange|dnr, ioCommand(capsule.IOWriteZeroes, nsid, capsule.ReadWrite{SLBA: math.MaxUint64, Blocks: 2}, nil))
		io.wantStatus(capsule.StatusSGLDataLength|dnr, ioCommand(capsule.IOWriteZeroes, nsid, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	}
	for _, r := range s.ops() {
		if r.Op == backend.OpWriteZeroes && !r.Deallocate {
			t.Error("DEAC did not reach the store")
		}
	}
}

// TestZeroesAndFreeingKeepToTheirRange is row 77 for the blocks that a command affects: the maximum number of
// blocks, all but the first and last of the namespace, and ranges that overlap.
func TestZeroesAndFreeingKeepToTheirRange(t *testing.T) {
	const blocks = 1<<16 + 2
	f := newFixture(t)
	s := newFakeStore(blocks * 512)
	f.export(s)
	h, io := f.both()
	nvm, err := capsule.DecodeIdentifyNVMController(identifyInto(h, capsule.CNSControllerCSI, 0))
	if err != nil || nvm.WZSL != 0 {
		t.Errorf("WZSL %d (%v): it would be a limit", nvm.WZSL, err)
	}
	zeroes, nines := make([]byte, 512), bytes.Repeat([]byte{9}, 512)
	want := func(zeroFrom, zeroTo int) {
		t.Helper()
		for i := range blocks {
			all := nines
			if i >= zeroFrom && i < zeroTo {
				all = zeroes
			}
			if b := s.data[i*512:][:512]; !bytes.Equal(b, all) {
				t.Fatalf("block %d is %x, blocks %d to %d were to be zero", i, b, zeroFrom, zeroTo)
			}
		}
	}
	fill(s.data, 9)
	io.wantOK(ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{SLBA: 1, Blocks: 1 << 16}, nil))
	want(1, blocks-1)
	fill(s.data, 9)
	io.wantStatus(capsule.StatusLBAOutOfRange|dnr, ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{SLBA: 3, Blocks: 1 << 16}, nil))
	want(0, 0)
	var ranges []capsule.DSMRange
	for i := range 256 { // each overlaps the next
		ranges = append(ranges, capsule.DSMRange{SLBA: capsule.LBA(1 + 8*i), Blocks: 16})
	}
	io.wantOK(ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: 256, Deallocate: true}, dsmData(ranges...)))
	want(1, 1+8*255+16)
	f.wantNothingHeld(io)
}

func dsmData(ranges ...capsule.DSMRange) []byte {
	b := make([]byte, len(ranges)*capsule.DSMRangeSize)
	for i, r := range ranges {
		r.Encode(b[i*capsule.DSMRangeSize:])
	}
	return b
}

// TestDatasetManagement is row 77.
func TestDatasetManagement(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	dsm := func(want capsule.Status, n int, deallocate bool, data []byte) {
		t.Helper()
		io.wantStatus(want, ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: n, Deallocate: deallocate}, data))
	}
	lbaRange := capsule.StatusLBAOutOfRange | dnr
	good := capsule.DSMRange{SLBA: 8, Blocks: 8}
	dsm(capsule.StatusSGLDataLength|dnr, 2, true, dsmData(good))
	dsm(capsule.StatusSGLDataLength|dnr, 256, true, dsmData(good, good))
	dsm(lbaRange, 2, true, dsmData(good, capsule.DSMRange{SLBA: 2047, Blocks: 2}))
	dsm(lbaRange, 1, true, dsmData(capsule.DSMRange{SLBA: math.MaxUint64, Blocks: math.MaxUint32}))
	dsm(capsule.StatusSuccess, 1, false, dsmData(capsule.DSMRange{SLBA: math.MaxUint64, Blocks: 1})) // only a hint
	if ops := s.ops(); len(ops) != 0 {
		t.Errorf("a bad command touched %+v", ops)
	}
	merged := func(want [][2]int64, ranges ...capsule.DSMRange) {
		t.Helper()
		dsm(capsule.StatusSuccess, len(ranges), true, append(dsmData(ranges...), make([]byte, 4096-16*len(ranges))...))
		var got [][2]int64
		for _, op := range s.ops() {
			if op.Op != backend.OpDeallocate {
				t.Errorf("%+v, want a deallocation", op)
			}
			got = append(got, [2]int64{op.Offset / 512, op.Length / 512})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: blocks %d, want %d", ranges, got, want)
		}
	}
	empty := capsule.DSMRange{SLBA: 5}
	merged([][2]int64{{8, 8}, {17, 8}}, good, empty, capsule.DSMRange{SLBA: 17, Blocks: 8})
	merged([][2]int64{{8, 12}}, good, empty, capsule.DSMRange{SLBA: 12, Blocks: 8})                                              // overlaps
	merged([][2]int64{{4, 16}}, empty, good, capsule.DSMRange{SLBA: 16, Blocks: 4}, empty, capsule.DSMRange{SLBA: 4, Blocks: 4}) // adjoin
	merged([][2]int64{{8, 8}, {0, 4}, {8, 8}}, good, good, capsule.DSMRange{Blocks: 4}, good)
	merged([][2]int64{{0, 2048}}, good, capsule.DSMRange{Blocks: 2048}, good)
	merged(nil, empty, empty)
	inCapsule := ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: 1, Deallocate: true}, nil)
	inCapsule.inCapsule = dsmData(good)
	io.wantOK(inCapsule)
	if len(s.ops()) != 1 {
		t.Error("ranges in the capsule were not read")
	}
}

// TestBackendErrors is row 79.
func TestBackendErrors(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	for _, c := range []struct {
		err         error
		read, write capsule.Status
	}{
		{errors.New("input/output error"), capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault},
		{fmt.Errorf("wrapped: %w", backend.ErrNoSpace), capsule.StatusCapacityExceeded | dnr, capsule.StatusCapacityExceeded | dnr},
		{backend.ErrReadOnly, capsule.StatusNamespaceWriteProtected | dnr, capsule.StatusNamespaceWriteProtected | dnr},
		{backend.ErrOutOfRange, capsule.StatusLBAOutOfRange | dnr, capsule.StatusLBAOutOfRange | dnr},
		{backend.ErrFenced, capsule.StatusInternalPathError, capsule.StatusInternalPathError},
		{backend.ErrFailed, capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault},
		{backend.ErrInvalid, capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault},
		{backend.ErrUnsupported, capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault}, // not for a Copy
	} {
		s.set(false, c.err)
		rw := capsule.ReadWrite{Blocks: 8}
		io.wantStatus(c.read, ioCommand(capsule.IORead, 2, rw, make([]byte, 4096)))
		io.wantStatus(c.write, ioCommand(capsule.IOWrite, 2, rw, make([]byte, 4096)))
		io.wantStatus(c.write, ioCommand(capsule.IOWriteZeroes, 2, rw, nil))
		io.wantStatus(c.write, ioCommand(capsule.IOFlush, 2, nil, nil))
		first, second := fusedPair(2, rw, make([]byte, 4096), make([]byte, 4096))
		io.wantPair(capsule.StatusFailedFused, c.write, first, second)
	}
	s.set(false, nil)
	if n := f.logs.FilterMessage("namespace failed").Len(); n != 1 {
		t.Errorf("%d log lines about the failed namespace, want 1", n)
	}
}

func TestReadOnlyNamespace(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	s.info.ReadOnly = true
	f.export(s)
	h, io := f.both()
	rw := capsule.ReadWrite{Blocks: 1}
	protected := capsule.StatusNamespaceWriteProtected | dnr
	io.wantStatus(protected, ioCommand(capsule.IOWrite, 2, rw, make([]byte, 512)))
	io.wantStatus(protected, ioCommand(capsule.IOWriteZeroes, 2, rw, nil))
	io.wantStatus(protected, ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: 1, Deallocate: true}, make([]byte, 16)))
	io.wantOK(ioCommand(capsule.IORead, 2, rw, make([]byte, 512)))
	ns, err := capsule.DecodeIdentifyNamespace(identifyInto(h, capsule.CNSNamespace, 2))
	if err != nil || ns.NSATTR&capsule.NSATTRWriteProt == 0 || ns.NUSE != ns.NSZE/2 {
		t.Errorf("namespace %+v, %v", ns, err)
	}
}
