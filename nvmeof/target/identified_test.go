package target

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// replaced has a host whose namespace 2 is replaced, and the two stores.
type replaced struct {
	*fixture
	*association
	old, now *fakeStore
}

// add exports a store as namespace 2 with a UUID of its own.
func (f *fixture) add(s backend.Store, id byte) {
	f.t.Helper()
	_, err := f.sub.AddNamespace(NamespaceConfig{Store: s, NSID: 2, UUID: uuid.UUID{id}})
	f.must(err)
}

// knowing connects a host that identifies the namespace by asks, and has written to it.
func knowing(t *testing.T, asks ...capsule.CNS) *replaced {
	f := newFixture(t)
	r := &replaced{fixture: f, old: newFakeStore(1 << 20), now: newFakeStore(1 << 20)}
	f.add(r.old, 1)
	r.association = f.associate(testHostNQN, f.at)
	r.asks(asks...)
	r.io.wantOK(writeOf(2))
	r.old.ops()
	return r
}

// replace gives namespace 2 another identity.
func (r *replaced) replace(s backend.Store, id byte) {
	r.fixture.t.Helper()
	r.must(r.sub.RemoveNamespace(2))
	_, _ = r.old.ops(), r.now.ops() // the replacement has flushed the old one
	r.add(s, id)
}

func (r *replaced) asks(list ...capsule.CNS) {
	r.fixture.t.Helper()
	for _, cns := range list {
		identifyInto(r.admin, cns, 2)
	}
}

// refuses checks that a write fails with a status that the host retries, and reaches no store.
func (r *replaced) refuses(what string) {
	r.fixture.t.Helper()
	if got := (<-r.io.startUnidentified(writeOf(2)).response).status; got != capsule.StatusInternalPathError {
		r.fixture.t.Errorf("%s: a write is answered with %v", what, got)
	}
	for _, s := range []*fakeStore{r.old, r.now} {
		if ops := s.ops(); len(ops) > 0 {
			r.fixture.t.Errorf("%s: the store has %+v", what, ops)
		}
	}
}

// takes checks that a write reaches one of the two stores.
func (r *replaced) takes(what string) {
	r.fixture.t.Helper()
	if got := (<-r.io.startUnidentified(writeOf(2)).response).status; got != capsule.StatusSuccess {
		r.fixture.t.Errorf("%s: a write is answered with %v", what, got)
	}
}

const (
	structure   = capsule.CNSNamespace
	independent = capsule.CNSNamespaceIndependent
	descriptors = capsule.CNSDescriptors
)

// TestReplacedNamespace: commands of a host for a namespace that was replaced reach neither store until the host
// has processed the new identity.
func TestReplacedNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		before []capsule.CNS // when the host connects
		first  []capsule.CNS // after the first event
		second []capsule.CNS // after the second event
	}{
		"Linux, which had a disk there":         {[]capsule.CNS{descriptors, structure, structure}, []capsule.CNS{descriptors, structure}, []capsule.CNS{descriptors}},
		"Linux, which makes a disk of it":       {[]capsule.CNS{descriptors, structure, structure}, []capsule.CNS{descriptors, structure}, []capsule.CNS{structure}},
		"a later Linux":                         {[]capsule.CNS{descriptors, independent, structure}, []capsule.CNS{descriptors, independent}, []capsule.CNS{descriptors, independent, structure, structure}},
		"structure first":                       {[]capsule.CNS{structure, descriptors}, []capsule.CNS{structure, descriptors}, []capsule.CNS{structure}},
		"a host that knows of no descriptors":   {[]capsule.CNS{structure}, []capsule.CNS{structure}, []capsule.CNS{structure}},
		"the structure of allocated namespaces": {[]capsule.CNS{structure}, []capsule.CNS{capsule.CNSAllocatedNamespace}, []capsule.CNS{structure}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := knowing(t, c.before...)
				e := r.event()
				r.replace(r.now, 2)
				r.wantChanged(e, 2)
				r.refuses("replaced")
				e = r.event()
				r.asks(c.first...)
				r.refuses("identified once")
				r.wantChanged(e, 2)
				r.asks(c.second...)
				r.takes("identified twice")
				if len(r.old.ops()) != 0 || len(r.now.ops()) != 1 {
					t.Error("it did not go to the new one")
				}
				r.close2(t)
			})
		})
	}
}

// TestReplacedAndAskedOnce: a host that identifies the new namespace once gets access after a time. One that does
// not identify it, or only by descriptors, does not.
func TestReplacedAndAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := knowing(t, descriptors, structure)
		r.replace(r.now, 2)
		time.Sleep(time.Hour)
		r.refuses("an hour later")
		r.asks(descriptors)
		time.Sleep(time.Hour)
		r.refuses("with the descriptors alone")
		r.asks(structure)
		time.Sleep(500 * time.Millisecond)
		r.refuses("soon after it knows all")
		time.Sleep(time.Second)
		r.takes("later")
		r.close2(t)
	})
}

// TestReplacedCommands: no command for a replaced namespace reaches the new one: not on the queue of the other
// shard, and no feature command.
func TestReplacedCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := knowing(t, structure)
		other := r.dial(2, 0, 128)
		d := dataOf(r.sub.nqn, testHostNQN)
		d.CNTLID = r.id
		other.wantOK(connectCommand(capsule.Connect{QID: 2, SQSIZE: 127}, d))
		r.replace(r.now, 2)
		dsm := make([]byte, capsule.DSMRangeSize)
		capsule.DSMRange{Blocks: 8}.Encode(dsm)
		rw := capsule.ReadWrite{Blocks: 1}
		for _, io := range []*hostQueue{r.io, other} {
			first, second := fusedPair(2, rw, make([]byte, 512), make([]byte, 512))
			all := []*hostCommand{
				writeOf(2), readOf(2),
				ioCommand(capsule.IOWriteZeroes, 2, rw, nil),
				ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: 1, Deallocate: true}, dsm),
				ioCommand(capsule.IOVerify, 2, rw, nil),
				ioCommand(capsule.IOCompare, 2, rw, make([]byte, 512)),
				copyCommand(2, capsule.Copy{SDLBA: 64, Ranges: 1}, capsule.CopyRange{Blocks: 1}),
				ioCommand(capsule.IOFlush, 2, nil, nil),
				ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil),
				reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{}, 0, 7),
				ioCommand(capsule.IOReservationReport, 2, capsule.ReservationReport{Length: 4096, Extended: true}, make([]byte, 4096)),
				first, second,
			}
			for _, c := range all {
				io.startUnidentified(c)
			}
			for _, c := range all {
				want := capsule.StatusInternalPathError
				if c == first {
					want = capsule.StatusFailedFused
				}
				if got := (<-c.response).status; got != want {
					t.Errorf("opcode %#x: %v, want %v", c.sqe.Opcode, got, want)
				}
			}
		}
		protect := adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNamespaceWriteProtect, Value: 1}, nil)
		protect.sqe.NSID = 2
		r.admin.wantStatus(capsule.StatusInternalPathError, protect)
		if ops := r.now.ops(); len(ops) > 0 {
			t.Errorf("the new one has %+v", ops)
		}
		for _, io := range []*hostQueue{r.io, other} {
			r.wantNothingHeld(io)
		}
		r.close2(t)
	})
}

// TestReplacedAgain: what a host knows of a namespace that was removed does not count for others.
func TestReplacedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := knowing(t, descriptors, structure)
		r.replace(newFakeStore(1<<20), 2)
		r.asks(descriptors, structure)
		r.replace(r.now, 3)
		r.asks(structure)
		r.refuses("replaced again")
		r.asks(descriptors, structure)
		r.takes("known")
		r.now.ops()
		r.replace(r.old, 1) // back
		r.refuses("the first is back")
		r.asks(descriptors, structure, structure)
		r.takes("known as before")
		r.old.ops()

		// Removed, and much later replaced by another one.
		r.must(r.sub.RemoveNamespace(2))
		r.old.ops()
		time.Sleep(time.Hour)
		r.add(newFakeStore(1<<20), 4)
		r.refuses("added later")
		// Namespaces that hosts cannot distinguish are the same to them.
		r.asks(descriptors, structure, structure)
		r.replace(r.now, 4)
		r.takes("the same identity")
		// With another block size, the same LBAs mean other bytes.
		big := newFakeStore(1 << 20)
		big.info.BlockSize = 4096
		r.replace(big, 4)
		r.now.ops()
		zeroes := ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{SLBA: 1, Blocks: 1}, nil)
		if got := (<-r.io.startUnidentified(zeroes).response).status; got != capsule.StatusInternalPathError || len(big.ops()) > 0 {
			t.Errorf("other blocks: %v", got)
		}
		r.close2(t)
	})
}

// TestReplacedWhileCommandsWait: commands that wait for the end of a pause, and those that were sent before the
// replacement, belong to the old namespace.
func TestReplacedWhileCommandsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := knowing(t, structure)
		r.must(r.sub.Namespaces()[1].Pause(0))
		waits := r.io.startUnidentified(writeOf(2))
		waits.wantPending()
		r.replace(r.now, 2)
		if got := (<-waits.response).status; got != capsule.StatusInvalidNamespace|dnr && got != capsule.StatusInternalPathError {
			t.Errorf("held by a pause: %v", got)
		}
		// Commands that wait for the host's Identify are not executed after it.
		for range 2 {
			waits = r.io.startUnidentified(writeOf(2))
			waits.wantPending()
			r.asks(structure)
			if got := (<-waits.response).status; got != capsule.StatusInternalPathError {
				t.Errorf("sent before Identify: %v", got)
			}
			r.replace(r.now, 3)
		}
		if ops := r.now.ops(); len(ops) > 0 {
			t.Errorf("the new one has %+v", ops)
		}
		// They can be aborted, and they end with their queue.
		aborted, left := r.io.startUnidentified(writeOf(2)), r.io.startUnidentified(readOf(2))
		aborted.wantPending()
		r.io.call(func() { r.io.q.abort(aborted.sqe.CID, func(bool) {}) })
		if got := (<-aborted.response).status; got != capsule.StatusAbortRequested|dnr {
			t.Errorf("aborted: %v", got)
		}
		r.io.lose()
		time.Sleep(time.Second)
		if left.answers != 1 {
			t.Errorf("answered %d times", left.answers)
		}
		r.close2(t)
	})
}

// TestUseBeforeIdentify: a host that has reconnected may send commands for an earlier namespace at the NSID. They
// wait until the host has identified the namespace, and then have to be retried. A host that identifies nothing is
// assumed to keep what it knew.
func TestUseBeforeIdentify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(1 << 20)
		f.add(s, 1)
		a := f.associate(testHostNQN, f.at)
		early := a.io.startUnidentified(writeOf(2))
		for range 5 { // while it identifies the others
			time.Sleep(3 * time.Second)
			identifyInto(a.admin, structure, 1)
		}
		early.wantPending()
		identifyInto(a.admin, structure, 2)
		if got := (<-early.response).status; got != capsule.StatusInternalPathError || len(s.ops()) != 0 {
			t.Errorf("sent before Identify: %v", got)
		}
		a.io.wantOK(writeOf(2))

		silent := f.associate(testHostNQN, f.at)
		begun := time.Now()
		one, two := silent.io.startUnidentified(writeOf(2)), silent.io.startUnidentified(writeOf(2))
		for _, c := range []*hostCommand{one, two} {
			if got := (<-c.response).status; !got.OK() {
				t.Errorf("of a host that sends no Identify: %v", got)
			}
		}
		if d := time.Since(begun); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("it waited %v", d)
		}
		begun = time.Now()
		if got := (<-silent.io.startUnidentified(writeOf(1)).response).status; !got.OK() || time.Since(begun) != 0 {
			t.Errorf("its next namespace: %v after %v", got, time.Since(begun))
		}
		if f.logged("host uses a namespace that it has not identified since it connected; its commands are executed") != 1 {
			t.Error("no line says so, or several")
		}
		f.close2(t)
	})
}

// TestReplacedUnmasks: a host's mask of reservation notices for a namespace does not apply to one that replaces
// it; otherwise a host that was preempted would not be notified.
func TestReplacedUnmasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.add(newFakeStore(1<<20), 1)
		a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
		know := func() {
			for range 2 { // which proves that the first has been processed
				for _, h := range []*tenant{a, b} {
					identifyInto(h.admin, descriptors, 2)
					identifyInto(h.admin, structure, 2)
				}
			}
			a.io.turns(2)
		}
		const mask = capsule.FeatureReservationMask
		know()
		b.setFeature(capsule.StatusSuccess, mask, 2, capsule.ReservationMaskAll)
		b.setFeature(capsule.StatusSuccess, mask, 1, capsule.ReservationMaskAll)
		f.must(f.sub.RemoveNamespace(2))
		f.add(newFakeStore(1<<20), 2)
		know()
		if v, kept := b.feature(capsule.StatusSuccess, mask, 2), b.feature(capsule.StatusSuccess, mask, 1); v != 0 || kept != uint64(capsule.ReservationMaskAll) {
			t.Errorf("mask %#x of the new namespace, %#x of the other", v, kept)
		}
		a.register(capsule.StatusSuccess, 2)
		b.register(capsule.StatusSuccess, 2)
		a.io.wantOK(a.preempt(2, capsule.PreemptReservation, exclusiveAccess, b.key))
		if p := b.reservationPage(); p.NSID != 2 || p.Notice != capsule.NoticeRegistrationPreempted {
			t.Errorf("page %+v", p)
		}
		b.setFeature(capsule.StatusSuccess, mask, 2, capsule.ReservationMaskAll)
		know()
		if v := b.feature(capsule.StatusSuccess, mask, 2); v != uint64(capsule.ReservationMaskAll) {
			t.Errorf("mask %#x after the namespace was identified once more", v)
		}
		f.close2(t)
	})
}
