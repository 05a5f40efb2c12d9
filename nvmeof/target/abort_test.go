package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestAbortIO: a command that waits for a resource of the target is aborted before the Abort completes. A command
// that the store has is not, and Abort's result says so.
func TestAbortIO(t *testing.T) {
	const aborted = capsule.StatusAbortRequested | dnr
	rw := capsule.ReadWrite{Blocks: 8}
	write := func(nsid capsule.NSID) *hostCommand { return ioCommand(capsule.IOWrite, nsid, rw, make([]byte, 4096)) }
	for _, c := range []struct {
		name   string
		cmd    *hostCommand
		setUp  func(f *fixture, s *fakeStore, io *hostQueue)
		let    func(f *fixture, s *fakeStore) // releases the command after the Abort was sent
		want   capsule.Status
		result uint64
	}{
		{name: "in the store", cmd: write(2), setUp: func(_ *fixture, s *fakeStore, _ *hostQueue) { s.set(true, nil) },
			let: func(_ *fixture, s *fakeStore) { s.set(false, nil) }, result: notAborted},
		{name: "waits for room in the store", cmd: write(2), setUp: func(_ *fixture, s *fakeStore, io *hostQueue) {
			s.set(true, nil)
			for range 2 {
				io.start(ioCommand(capsule.IORead, 2, rw, make([]byte, 4096)))
			}
			io.turns(2)
		}, let: func(_ *fixture, s *fakeStore) { s.set(false, nil) }, want: aborted},
		{name: "waits for a lease", cmd: write(1), setUp: func(f *fixture, _ *fakeStore, _ *hostQueue) {
			if !f.store.TryLease(0, 4096, true) {
				f.t.Fatal("no lease")
			}
		}, let: func(f *fixture, _ *fakeStore) { f.store.Release(0, 4096, true) }, want: aborted},
		{name: "between two operations", cmd: ioCommand(capsule.IOVerify, 2, capsule.ReadWrite{Blocks: 2048}, nil),
			setUp: func(_ *fixture, s *fakeStore, _ *hostQueue) { s.set(true, nil) },
			let:   func(_ *fixture, s *fakeStore) { s.set(false, nil) }, want: aborted},
		{name: "first half of a fused operation", cmd: func() *hostCommand {
			first, _ := fusedPair(2, rw, make([]byte, 4096), nil)
			return first
		}(), want: aborted},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.BackendDepth = 2 })
			s := newFakeStore(1 << 20)
			f.export(s)
			admin, io := f.both()
			if c.setUp != nil {
				c.setUp(f, s, io)
			}
			c.cmd.sqe.CID = 77
			io.start(c.cmd)
			io.turns(2)
			a := admin.start(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: 77}, nil))
			io.turns(2)
			if c.let != nil {
				c.let(f, s)
			}
			if r := <-a.response; !r.status.OK() || r.result != c.result {
				t.Errorf("Abort: %v, result %d, want %d", r.status, r.result, c.result)
			}
			if r := <-c.cmd.response; r.status != c.want {
				t.Errorf("command: %v, want %v", r.status, c.want)
			}
			io.turns(3)
			f.wantNothingHeld(io)
			f.wantScratchFree(io)
		})
	}
}

// TestAbortWhileFetching: the data is being transferred, so the command ends when it has arrived, and never
// reaches the store.
func TestAbortWhileFetching(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	c := ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096))
	c.sqe.CID, c.holdFetch = 5, true
	io.start(c)
	a := admin.start(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: 5}, nil))
	io.turns(2)
	a.wantPending()
	io.call(func() { io.q.requests[c.index].ready() })
	if r := <-c.response; r.status != capsule.StatusAbortRequested|dnr {
		t.Errorf("command: %v", r.status)
	}
	if r := <-a.response; !r.status.OK() || r.result != 0 {
		t.Errorf("Abort: %v, result %d", r.status, r.result)
	}
	if len(s.ops()) != 0 {
		t.Error("an aborted write reached the store")
	}
}

// TestAbortLimit is row 65.
func TestAbortLimit(t *testing.T) {
	f := newFixture(t)
	admin, io := f.both()
	var pending []*hostCommand
	for i := range maxAborts + 1 {
		c := ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096))
		c.sqe.CID, c.holdFetch = capsule.CID(i), true
		pending = append(pending, io.start(c))
	}
	var aborts []*hostCommand
	for i := range maxAborts {
		aborts = append(aborts, admin.start(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: capsule.CID(i)}, nil)))
	}
	admin.wantStatus(capsule.StatusAbortLimitExceeded, adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: maxAborts}, nil))
	for _, c := range pending {
		io.call(func() { io.q.requests[c.index].ready() })
		<-c.response
	}
	for _, a := range aborts {
		if r := <-a.response; !r.status.OK() || r.result != 0 {
			t.Errorf("Abort: %v, result %d", r.status, r.result)
		}
	}
	admin.wantOK(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: 9}, nil))
}
