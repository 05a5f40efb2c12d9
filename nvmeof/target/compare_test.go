package target

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestCompare is row 78, on a store whose memory is leased and on one without leases.
func TestCompare(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(4 << 20)
	f.export(s)
	_, io := f.both()
	for _, nsid := range []capsule.NSID{1, 2} {
		for _, n := range []int{512, 4096, 1 << 20} {
			rw := capsule.ReadWrite{SLBA: 8, Blocks: uint32(n / 512)}
			data := pattern(n, byte(nsid))
			io.wantOK(ioCommand(capsule.IOCompare, nsid, capsule.ReadWrite{SLBA: 4096, Blocks: 1}, make([]byte, 512))) // never written
			io.wantOK(ioCommand(capsule.IOWrite, nsid, rw, data))
			io.wantOK(ioCommand(capsule.IOCompare, nsid, rw, data))
			for _, at := range []int{0, n / 2, n - 1} {
				other := bytes.Clone(data)
				other[at] ^= 0x80
				io.wantStatus(capsule.StatusCompareFailure, ioCommand(capsule.IOCompare, nsid, rw, other))
			}
		}
		small := ioCommand(capsule.IOCompare, nsid, capsule.ReadWrite{SLBA: 8, Blocks: 1}, nil)
		small.inCapsule = pattern(512, byte(nsid))
		io.wantOK(small)
		for _, c := range []struct {
			rw   capsule.ReadWrite
			n    int
			want capsule.Status
		}{
			{capsule.ReadWrite{SLBA: math.MaxUint64, Blocks: 2}, 1024, capsule.StatusLBAOutOfRange | dnr},
			{capsule.ReadWrite{Blocks: 2}, 512, capsule.StatusSGLDataLength | dnr},
			{capsule.ReadWrite{Blocks: 1, PRINFO: 1}, 512, invalidField},
			{capsule.ReadWrite{Blocks: 4096}, 512, invalidField}, // above MDTS
		} {
			io.wantStatus(c.want, ioCommand(capsule.IOCompare, nsid, c.rw, make([]byte, c.n)))
		}
	}
	s.set(false, errors.New("input/output error"))
	io.wantStatus(capsule.StatusUnrecoveredReadError, ioCommand(capsule.IOCompare, 2, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096)))
	f.wantNothingHeld(io)
	f.wantScratchFree(io)
}

// wantScratchFree checks that no scratch buffer of a queue's shard is in use.
func (f *fixture) wantScratchFree(io *hostQueue) {
	f.t.Helper()
	io.call(func() {
		if n := io.q.worker.scratch.Free(); n != scratchSize {
			f.t.Errorf("%d bytes of scratch memory are free, want all", n)
		}
	})
}

// TestVerify is row 78: every block is read, and errors are found.
func TestVerify(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(4 << 20)
	f.export(s)
	_, io := f.both()
	verify := func(want capsule.Status, nsid capsule.NSID, rw capsule.ReadWrite) {
		t.Helper()
		io.wantStatus(want, ioCommand(capsule.IOVerify, nsid, rw, nil))
	}
	verify(capsule.StatusSuccess, 1, capsule.ReadWrite{Blocks: 8})
	verify(capsule.StatusSuccess, 2, capsule.ReadWrite{SLBA: 1, Blocks: 8191}) // above MDTS, which is no limit
	var read int64
	next := int64(512)
	for _, r := range s.ops() {
		if r.Op != backend.OpRead || r.Offset != next || r.Length > scratchChunk {
			t.Errorf("operation %+v, want a read at %d", r, next)
		}
		next += r.Length
		read += r.Length
	}
	if read != 8191*512 {
		t.Errorf("%d bytes were read", read)
	}
	verify(capsule.StatusLBAOutOfRange|dnr, 2, capsule.ReadWrite{SLBA: 8191, Blocks: 2})
	io.wantStatus(capsule.StatusSGLDataLength|dnr, ioCommand(capsule.IOVerify, 2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	s.set(false, errors.New("input/output error"))
	verify(capsule.StatusUnrecoveredReadError, 2, capsule.ReadWrite{Blocks: 8})
	f.wantScratchFree(io)
}

// TestScratchRunsOut: when a host uses all the scratch buffers that it may have, half of them, its further
// commands wait. A command whose queue ends leaves nothing behind.
func TestScratchRunsOut(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(4 << 20)
	f.export(s)
	_, id := f.connectAdmin(0)
	first, second := f.connectIO(id, 1, 1), f.connectIO(id, 2, 1)
	s.set(true, nil)
	var cs []*hostCommand
	for range 20 {
		cs = append(cs, first.start(ioCommand(capsule.IOVerify, 2, capsule.ReadWrite{Blocks: 2048}, nil)))
	}
	heir := second.start(ioCommand(capsule.IOVerify, 2, capsule.ReadWrite{Blocks: 2048}, nil))
	heir.wantPending()
	if n := s.inFlight(); n != scratchSize/scratchChunk/2 {
		t.Errorf("%d reads at the store, want one for every second scratch buffer", n)
	}
	first.fail(&rdmaError{})
	first.call(func() {})
	s.set(false, nil)
	<-first.closed
	if r := <-heir.response; !r.status.OK() {
		t.Errorf("the other queue's command: %v", r.status)
	}
	for _, c := range cs {
		if c.answers != 1 {
			t.Fatalf("answered %d times", c.answers)
		}
	}
	f.wantScratchFree(second)
}
