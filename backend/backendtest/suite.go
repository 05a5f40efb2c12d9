// Package backendtest has the test suite for implementations of package backend ([Run]), and a store that misbehaves on
// demand ([Faulty]). Use the suite to test your own store, and Faulty to test users of stores.
package backendtest

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// MinSize is the minimum size in bytes of a store for the suite. A store of 20 MiB tests more: ranges longer than
// stores handle in one piece.
const MinSize = 4 << 20

// Run tests the stores that open returns: a new, writable store of at least MinSize bytes for each test. Their initial
// content does not matter. Run closes them. Each queue is used from one goroutine, locked to its thread, from NewQueue
// to Close.
func Run(t *testing.T, open func(t *testing.T) backend.Store) {
	leaser := false
	run := func(name string, f func(*testing.T, backend.Store)) {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			if size := s.Info().Size; size < MinSize {
				t.Fatalf("store of %d bytes: the suite needs %d", size, MinSize)
			}
			_, leaser = s.(backend.Leaser)
			f(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	for _, tt := range storeTests {
		run(tt.name, tt.run)
	}
	if !leaser {
		return
	}
	for _, tt := range leaserTests {
		run(tt.name, func(t *testing.T, s backend.Store) { tt.run(t, s, s.(backend.Leaser)) })
	}
}

var storeTests = []struct {
	name string
	run  func(*testing.T, backend.Store)
}{
	{"Info", testInfo},
	{"Optional", testOptional},
	{"ReadYourWrites", testReadYourWrites},
	{"RandomOperations", testRandomOperations},
	{"Batch", testBatch},
	{"OutOfRange", testOutOfRange},
	{"Malformed", testMalformed},
	{"Depth", testDepth},
	{"Flush", testFlush},
	{"FlushOnManyQueues", testFlushOnManyQueues},
	{"WriteZeroes", testWriteZeroes},
	{"Deallocate", testDeallocate},
	{"AtomicBlocks", testAtomicBlocks},
	{"Copy", testCopy},
	{"CopyIsAtomic", testCopyIsAtomic},
	{"CompareAndWrite", testCompareAndWrite},
	{"CompareAndWriteIsAtomic", testCompareAndWriteIsAtomic},
	{"OwnConflicts", testOwnConflicts},
	{"Descriptor", testDescriptor},
	{"CloseInFlight", testCloseInFlight},
	{"CloseStore", testCloseStore},
	{"NoAllocations", testNoAllocations},
}

var leaserTests = []struct {
	name string
	run  func(*testing.T, backend.Store, backend.Leaser)
}{
	{"Leases", testLeases},
	{"LeaseHoldsWrites", testLeaseHoldsWrites},
	{"LeaseHoldsReads", testLeaseHoldsReads},
	{"LeaseStarvation", testLeaseStarvation},
	{"LeaseGivenUp", testLeaseGivenUp},
	{"LeaseClose", testLeaseClose},
	{"LeaseAtomicBlocks", testLeaseAtomicBlocks},
}

func testInfo(t *testing.T, s backend.Store) {
	info := s.Info()
	if info.BlockSize != 512 && info.BlockSize != 4096 {
		t.Errorf("block size %d", info.BlockSize)
	}
	if info.Size%int64(info.BlockSize) != 0 {
		t.Errorf("size %d is not whole blocks of %d", info.Size, info.BlockSize)
	}
	if info.Alignment < 1 || info.Alignment > 4096 || info.Alignment&(info.Alignment-1) != 0 {
		t.Errorf("alignment %d: want a power of two up to 4096", info.Alignment)
	}
	if info.ReadOnly {
		t.Error("the suite needs a writable store")
	}
	if n, err := s.Allocated(); err != nil || n < 0 {
		t.Errorf("Allocated() = %d, %v", n, err)
	}
	for _, depth := range []int{0, -1} {
		if _, err := s.NewQueue(depth, nil); err == nil {
			t.Errorf("NewQueue took a depth of %d", depth)
		}
	}
}

// A store that failed before it was opened acknowledges no write and no flush until the failure is cleared.
func testFailed(t *testing.T, s backend.Store, l backend.Failer) {
	why := errors.New("it has failed before")
	l.Fail(why)
	c := newClient(t, s, 1)
	defer c.close()
	block := c.buffer(c.block())
	writes := map[string]backend.Request{
		"Write":          {Op: backend.OpWrite, Length: int64(len(block)), Buf: block},
		"Write with FUA": {Op: backend.OpWrite, Length: int64(len(block)), Buf: block, FUA: true},
		"Flush":          {Op: backend.OpFlush},
	}
	for name, r := range writes {
		if err := c.do(r); err == nil && !s.Info().ReadOnly {
			t.Errorf("%s of a store that has failed succeeds", name)
		}
	}
	if err := c.do(backend.Request{Op: backend.OpRead, Length: int64(len(block)), Buf: block}); err != nil {
		t.Errorf("Read of a store that has failed: %v", err)
	}
	if err := l.Failed(); !errors.Is(err, why) {
		t.Errorf("it has failed because of %v", err)
	}
	if err := l.Clear(); err != nil || l.Failed() != nil {
		t.Errorf("Clear: %v; failed: %v", err, l.Failed())
	}
	if err := c.do(writes["Flush"]); err != nil {
		t.Errorf("Flush after that: %v", err)
	}
}

// The optional interfaces of a store without faults.
func testOptional(t *testing.T, s backend.Store) {
	if r, ok := s.(backend.Resizer); ok {
		before := s.Info()
		if changed, err := r.Refresh(); changed || err != nil || s.Info() != before {
			t.Errorf("Refresh: %v, %v; %+v before, %+v after", changed, err, before, s.Info())
		}
	}
	if l, ok := s.(backend.Latcher); ok {
		if failed, cleared := l.Failed(), l.Clear(); failed != nil || cleared != nil {
			t.Errorf("Failed: %v, Clear: %v", failed, cleared)
		}
	}
	if l, ok := s.(backend.Failer); ok {
		testFailed(t, s, l)
	}
	if r, ok := s.(backend.Roomer); ok {
		if free, total, err := r.Room(); err != nil || free < 0 || free > total {
			t.Errorf("Room: %d of %d bytes, %v", free, total, err)
		}
	}
	if h, ok := s.(backend.HealthReporter); ok {
		if _, err := h.Health(); err != nil && !errors.Is(err, backend.ErrNoHealth) {
			t.Errorf("Health: %v", err)
		}
	}
}
