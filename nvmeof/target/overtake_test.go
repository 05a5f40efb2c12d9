package target

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestAbandonedWriteNeverOvertakes is section 6.4 of the catalogue, for everything that a write may wait for in
// the target: path A is lost with a write that was not submitted to the store, the host writes the same blocks
// through path B, and A's write is released. The blocks then have B's data. (Operations that a store has begun are
// ordered by the store.)
func TestAbandonedWriteNeverOvertakes(t *testing.T) {
	rw := capsule.ReadWrite{Blocks: 8}
	for _, c := range []struct {
		name string
		nsid capsule.NSID
		hold func(f *fixture, s *fakeStore, a *association, w *hostCommand)
		let  func(f *fixture, s *fakeStore)
	}{
		{"its data", 2, func(_ *fixture, _ *fakeStore, _ *association, w *hostCommand) { w.holdFetch = true }, func(*fixture, *fakeStore) {}},
		{"a lease", 1, func(f *fixture, _ *fakeStore, _ *association, _ *hostCommand) {
			if !f.store.TryLease(0, 4096, true) {
				f.t.Fatal("no lease")
			}
		}, func(f *fixture, _ *fakeStore) { f.store.Release(0, 4096, true) }},
		{"a paused namespace", 2, func(f *fixture, _ *fakeStore, _ *association, _ *hostCommand) {
			f.must(f.sub.Namespaces()[1].Pause(0))
		}, func(f *fixture, _ *fakeStore) { f.must(f.sub.Namespaces()[1].Resume()) }},
		{"room in the store", 2, func(f *fixture, s *fakeStore, a *association, _ *hostCommand) {
			s.set(true, nil)
			a.io.start(ioCommand(capsule.IORead, 2, capsule.ReadWrite{SLBA: 64, Blocks: 1}, make([]byte, 512)))
			f.within(a.io, "the store is full", func() bool { return s.inFlight() == 1 })
		}, func(_ *fixture, s *fakeStore) { s.set(false, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.BackendDepth = 1 })
			s := newFakeStore(1 << 20)
			f.export(s)
			a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
			b := f.associate(testHostNQN, f.listen("192.0.2.1:4421"))
			old := ioCommand(capsule.IOWrite, c.nsid, rw, bytes.Repeat([]byte{1}, 4096))
			c.hold(f, s, a, old)
			a.io.start(old)
			a.io.turns(3)
			a.io.fail(&rdmaError{})
			a.admin.fail(&rdmaError{})
			a.io.turns(3)
			next := b.io.start(ioCommand(capsule.IOWrite, c.nsid, rw, bytes.Repeat([]byte{2}, 4096)))
			b.io.turns(3)
			c.let(f, s)
			if r := <-next.response; !r.status.OK() {
				t.Errorf("the write through the other path: %v", r.status)
			}
			<-a.io.closed
			<-a.admin.closed
			back := ioCommand(capsule.IORead, c.nsid, rw, make([]byte, 4096))
			if b.io.wantOK(back); back.memory[0] != 2 || back.memory[4095] != 2 {
				t.Errorf("the blocks have the write %d, which was given up", back.memory[0])
			}
			f.wantNothingHeld(b.io)
		})
	}
}

// TestRefusalsNeedNoBuffer is rows 51 and 86: an excessive length is refused before a buffer is needed, so the
// command completes even if there is none. (Above MDTS, the fabric refuses the SGL itself.)
func TestRefusalsNeedNoBuffer(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Shards, c.Arena = 1, 1<<20 })
	s := newFakeStore(4 << 20)
	f.export(s)
	admin, id := f.connectAdmin(0)
	io := f.connectIO(id, 1, 0)
	s.set(true, nil)
	holder := io.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 2048}, make([]byte, 1<<20)))
	f.within(io, "the buffer is taken", func() bool { return s.inFlight() == 1 })
	waits := io.start(readOf(2))
	waits.wantPending()
	huge := make([]byte, 1<<20)
	io.wantStatus(invalidField, ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 4097}, huge))
	io.wantStatus(capsule.StatusSGLDataLength|dnr, ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 1}, huge))
	io.wantStatus(invalidField, ioCommand(capsule.IOReservationReport, 2, capsule.ReservationReport{Length: 1 << 34, Extended: true}, huge))
	for _, n := range []uint64{1 << 34, 1<<20 + 4, 16<<20 - 4} {
		admin.wantStatus(capsule.StatusSGLDataLength|dnr, adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogError, Length: n}, huge))
	}
	waits.wantPending()
	s.set(false, nil)
	for _, c := range []*hostCommand{holder, waits} {
		if r := <-c.response; !r.status.OK() {
			t.Error(r.status)
		}
	}
	f.wantNothingHeld(io)
}
