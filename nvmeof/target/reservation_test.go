package target

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

const (
	writeExclusive  = capsule.ReservationWriteExclusive
	exclusiveAccess = capsule.ReservationExclusiveAccess
	conflict        = capsule.StatusReservationConflict | dnr
)

// A tenant is a host that is named by one letter, and its key.
type tenant struct {
	admin, io *hostQueue
	id        capsule.HostID
	key       capsule.ReservationKey
}

// tenant connects a host to a subsystem.
func (f *fixture) tenant(name string, sub *Subsystem, shard int) *tenant {
	f.t.Helper()
	nqn := nvmeof.NQN("nqn.2014-08.org.nvmexpress:host:" + name)
	sub.AllowHost(nqn)
	d := connectData()
	d.HostNQN, d.SubNQN = nqnField(nqn), nqnField(sub.NQN())
	d.HostID = capsule.HostID{15: name[0]}
	admin := f.dial(0, 0, 32)
	r := admin.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	admin.setCC(linuxCC)
	admin.setCC(linuxCC.WithEnable(true))
	d.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io := f.dial(1, shard, 128)
	io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	return &tenant{admin: admin, io: io, id: d.HostID, key: capsule.ReservationKey(name[0])}
}

func reserveCommand(op capsule.IOOpcode, nsid capsule.NSID, f capsule.ReservationCommand, current, other capsule.ReservationKey) *hostCommand {
	b := make([]byte, capsule.ReservationKeysSize)
	capsule.ReservationKeys{Current: current, Other: other}.Encode(b)
	return ioCommand(op, nsid, f, b)
}

func (h *tenant) register(want capsule.Status, nsid capsule.NSID) {
	h.io.t.Helper()
	h.io.wantStatus(want, reserveCommand(capsule.IOReservationRegister, nsid, capsule.ReservationCommand{}, 0, h.key))
}

func (h *tenant) acquire(want capsule.Status, nsid capsule.NSID, t capsule.ReservationType) {
	h.io.t.Helper()
	h.io.wantStatus(want, reserveCommand(capsule.IOReservationAcquire, nsid, capsule.ReservationCommand{Type: t}, h.key, 0))
}

func (h *tenant) release(want capsule.Status, nsid capsule.NSID, t capsule.ReservationType) {
	h.io.t.Helper()
	h.io.wantStatus(want, reserveCommand(capsule.IOReservationRelease, nsid, capsule.ReservationCommand{Type: t}, h.key, 0))
}

func (h *tenant) preempt(nsid capsule.NSID, action uint8, t capsule.ReservationType, key capsule.ReservationKey) *hostCommand {
	return reserveCommand(capsule.IOReservationAcquire, nsid, capsule.ReservationCommand{Action: action, Type: t}, h.key, key)
}

// report returns the reservation as the host sees it.
func (h *tenant) report(nsid capsule.NSID) (head capsule.ReservationStatus, all []capsule.ReservationRegistrant) {
	h.io.t.Helper()
	b := make([]byte, 4096)
	fill(b, 0xa5)
	h.io.wantOK(ioCommand(capsule.IOReservationReport, nsid, capsule.ReservationReport{Length: 4096, Extended: true}, b))
	head, err := capsule.DecodeReservationStatus(b)
	if err != nil {
		h.io.t.Fatal(err)
	}
	for i := range int(head.Registrants) {
		e, err := capsule.DecodeReservationRegistrant(b[64*(i+1):])
		if err != nil {
			h.io.t.Fatal(err)
		}
		all = append(all, e)
	}
	for _, v := range b[64*(int(head.Registrants)+1):] {
		if v != 0 {
			h.io.t.Fatal("the report has bytes of an earlier buffer")
		}
	}
	return head, all
}

// wantAccess checks every command of the read and write groups.
func (h *tenant) wantAccess(nsid capsule.NSID, reads, writes bool) {
	h.io.t.Helper()
	status := func(ok bool) capsule.Status {
		if ok {
			return capsule.StatusSuccess
		}
		return conflict
	}
	rw := capsule.ReadWrite{SLBA: 64, Blocks: 8}
	h.io.wantStatus(status(reads), ioCommand(capsule.IORead, nsid, rw, make([]byte, 4096)))
	h.io.wantStatus(status(reads), ioCommand(capsule.IOCompare, nsid, rw, make([]byte, 4096)))
	h.io.wantStatus(status(reads), ioCommand(capsule.IOVerify, nsid, rw, nil))
	h.io.wantStatus(status(writes), ioCommand(capsule.IOWrite, nsid, rw, make([]byte, 4096)))
	h.io.wantStatus(status(writes), ioCommand(capsule.IOWriteZeroes, nsid, rw, nil))
	h.io.wantStatus(status(writes), ioCommand(capsule.IOFlush, nsid, nil, nil))
	h.io.wantStatus(status(writes), ioCommand(capsule.IODatasetManagement, nsid,
		capsule.DatasetManagement{Ranges: 1, Deallocate: true}, dsmData(capsule.DSMRange{SLBA: 64, Blocks: 8})))
	h.io.wantStatus(status(reads && writes), copyCommand(nsid, capsule.Copy{SDLBA: 128}, capsule.CopyRange{SLBA: 64, Blocks: 8}))
	first, second := fusedPair(nsid, rw, make([]byte, 4096), make([]byte, 4096))
	a, b := capsule.StatusSuccess, capsule.StatusSuccess
	switch {
	case !reads:
		a, b = conflict, capsule.StatusFailedFused
	case !writes:
		a, b = capsule.StatusFailedFused, conflict
	}
	h.io.wantPair(a, b, first, second)
}

// TestReservation tests all types with two hosts on two shards, one of them in another subsystem that exports the
// same store.
func TestReservation(t *testing.T) {
	f := newFixture(t)
	other, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.AddNamespace(NamespaceConfig{Store: f.store, NSID: 7}); err != nil {
		t.Fatal(err)
	}
	a, b, c := f.tenant("a", f.sub, 0), f.tenant("b", other, 1), f.tenant("c", f.sub, 1)
	a.wantAccess(1, true, true)
	a.register(capsule.StatusSuccess, 1)
	b.register(capsule.StatusSuccess, 7)
	b.wantAccess(7, true, true) // nothing is reserved yet
	for _, x := range []struct {
		typ                              capsule.ReservationType
		readsB, writesB, readsC, writesC bool
	}{
		{capsule.ReservationWriteExclusive, true, false, true, false},
		{capsule.ReservationExclusiveAccess, false, false, false, false},
		{capsule.ReservationWriteExclusiveRegistrantsOnly, true, true, true, false},
		{capsule.ReservationExclusiveAccessRegistrantsOnly, true, true, false, false},
		{capsule.ReservationWriteExclusiveAllRegistrants, true, true, true, false},
		{capsule.ReservationExclusiveAccessAllRegistrants, true, true, false, false},
	} {
		a.acquire(capsule.StatusSuccess, 1, x.typ)
		a.wantAccess(1, true, true)
		b.wantAccess(7, x.readsB, x.writesB)
		c.wantAccess(1, x.readsC, x.writesC)
		c.acquire(conflict, 1, x.typ)
		head, all := b.report(7)
		if head.Type != x.typ || len(all) != 2 || all[0].Holds != 1 || all[0].Host != a.id || all[1].Key != b.key ||
			(all[1].Holds == 1) != x.typ.AllRegistrants() {
			t.Errorf("type %d: report %+v, %+v", x.typ, head, all)
		}
		a.release(capsule.StatusSuccess, 1, x.typ)
		c.wantAccess(1, true, true)
	}
	// Another path of the same host shares the reservation; its loss changes nothing.
	a.acquire(capsule.StatusSuccess, 1, exclusiveAccess)
	a.io.lose()
	a.admin.lose()
	c.wantAccess(1, false, false)
	f.tenant("a", f.sub, 1).wantAccess(1, true, true)
	ids := identifyInto(b.admin, capsule.CNSNamespace, 7)
	if ns, err := capsule.DecodeIdentifyNamespace(ids); err != nil || ns.RESCAP != 0xfe {
		t.Errorf("RESCAP %#x, %v", ns.RESCAP, err)
	}
}

// TestReservationsRefused: a namespace that hosts may not reserve reports that and refuses commands; a reservation
// made elsewhere applies there too.
func TestReservationsRefused(t *testing.T) {
	f := newFixture(t)
	other, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":other"})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := other.AddNamespace(NamespaceConfig{Store: f.store, NSID: 7, RefuseReservations: true})
	if err != nil || !ns.RefuseReservations() {
		t.Fatal(err)
	}
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", other, 1)
	refused := capsule.StatusInvalidOpcode | dnr
	b.register(refused, 7)
	b.acquire(refused, 7, writeExclusive)
	b.release(refused, 7, writeExclusive)
	b.io.wantStatus(refused, ioCommand(capsule.IOReservationReport, 7, capsule.ReservationReport{Length: 64, Extended: true}, make([]byte, 64)))
	rescap := func() uint8 {
		id, err := capsule.DecodeIdentifyNamespace(identifyInto(b.admin, capsule.CNSNamespace, 7))
		if err != nil {
			t.Fatal(err)
		}
		return id.RESCAP
	}
	if c := rescap(); c != 0 {
		t.Errorf("RESCAP %#x", c)
	}
	a.register(capsule.StatusSuccess, 1)
	a.acquire(capsule.StatusSuccess, 1, exclusiveAccess)
	b.wantAccess(7, false, false)
	ns.SetRefuseReservations(false)
	if c := rescap(); c != 0xfe {
		t.Errorf("RESCAP %#x", c)
	}
	b.register(capsule.StatusSuccess, 7)
	f.wantNothingHeld(b.io)
}

// TestBadReservationCommands is row 85.
func TestBadReservationCommands(t *testing.T) {
	f := newFixture(t)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	a.register(capsule.StatusSuccess, 1)
	b.acquire(conflict, 1, writeExclusive) // not a registrant
	a.acquire(capsule.StatusSuccess, 1, writeExclusive)
	a.release(invalidField, 1, exclusiveAccess)
	length := capsule.StatusSGLDataLength | dnr
	for name, x := range map[string]struct {
		cmd  *hostCommand
		want capsule.Status
	}{
		"register with a wrong key": {reserveCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{Action: capsule.ReplaceKey}, 99, 5), conflict},
		"persist without a store":   {reserveCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key), invalidField},
		"type 0":                    {reserveCommand(capsule.IOReservationAcquire, 1, capsule.ReservationCommand{}, a.key, 0), invalidField},
		"no such namespace":         {reserveCommand(capsule.IOReservationAcquire, 9, capsule.ReservationCommand{Type: 1}, a.key, 0), capsule.StatusInvalidNamespace | dnr},
		"broadcast":                 {reserveCommand(capsule.IOReservationAcquire, capsule.NSIDBroadcast, capsule.ReservationCommand{Type: 1}, a.key, 0), capsule.StatusInvalidNamespace | dnr},
		"register, short":           {ioCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{}, make([]byte, 8)), length},
		"release, short":            {ioCommand(capsule.IOReservationRelease, 1, capsule.ReservationCommand{}, make([]byte, 4)), length},
		"report, not extended":      {ioCommand(capsule.IOReservationReport, 1, capsule.ReservationReport{Length: 64}, make([]byte, 64)), capsule.StatusHostIDInconsistent | dnr},
		"report, short":             {ioCommand(capsule.IOReservationReport, 1, capsule.ReservationReport{Length: 128, Extended: true}, make([]byte, 64)), length},
		"report, NUMD all ones":     {ioCommand(capsule.IOReservationReport, 1, capsule.ReservationReport{Length: 1 << 34, Extended: true}, make([]byte, 64)), invalidField},
	} {
		if r := a.io.do(x.cmd); r.status != x.want {
			t.Errorf("%s: %v, want %v", name, r.status, x.want)
		}
	}
	short := ioCommand(capsule.IOReservationRelease, 1, capsule.ReservationCommand{Type: writeExclusive}, []byte{byte(a.key), 7: 0})
	a.io.wantOK(short) // 8 bytes are enough
	f.wantNothingHeld(a.io)
}

// TestPreemptAndAbortOfStalled: a host that does not deliver the data of its writes, and keeps its connection,
// does not prevent others from fencing it.
func TestPreemptAndAbortOfStalled(t *testing.T) {
	f := newFixture(t)
	f.target.fetchTimeout = 50 * time.Millisecond
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	for _, h := range []*tenant{a, b} {
		h.register(capsule.StatusSuccess, 1)
	}
	stalled := ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096))
	stalled.holdFetch = true
	b.io.start(stalled)
	stalled.wantPending()
	p := a.io.start(a.preempt(1, capsule.PreemptAndAbort, exclusiveAccess, b.key))
	select {
	case r := <-p.response:
		if !r.status.OK() {
			t.Errorf("preempt: %v", r.status)
		}
	case <-time.After(10 * time.Second):
		t.Error("the preempted host holds up the command that fences it")
		b.io.lose()
	}
	<-b.io.closed
	if f.logs.FilterMessageSnippet("does not deliver the data").Len() != 1 {
		t.Error("the log has no reason why its queue ended")
	}
	b.admin.wantOK(identifyCommand(1, capsule.CNSNamespace)) // its other queues are not affected
}

// TestPreemptAndAbort: the commands of the preempted host end before the preempting command completes, whatever
// they wait for.
func TestPreemptAndAbort(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.BackendDepth = 2 })
	s := newFakeStore(4 << 20)
	f.export(s)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	for _, h := range []*tenant{a, b} {
		h.register(capsule.StatusSuccess, 2)
	}
	b.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	s.set(true, nil)
	rw := capsule.ReadWrite{Blocks: 8}
	fetching := ioCommand(capsule.IOWrite, 2, rw, make([]byte, 4096))
	fetching.holdFetch = true
	b.io.start(fetching)
	var theirs []*hostCommand
	for range 5 { // two of them at the store
		theirs = append(theirs, b.io.start(ioCommand(capsule.IOWrite, 2, rw, make([]byte, 4096))))
	}
	elsewhere := ioCommand(capsule.IOWrite, 1, rw, make([]byte, 4096))
	elsewhere.holdFetch = true
	b.io.start(elsewhere)
	b.io.turns(3)
	p := a.io.start(a.preempt(2, capsule.PreemptAndAbort, exclusiveAccess, b.key))
	a.io.turns(20)
	p.wantPending()
	for i, c := range theirs[2:] {
		if r := <-c.response; r.status != capsule.StatusAbortedByPreempt {
			t.Errorf("write %d, which the store did not have: %v", i+2, r.status)
		}
	}
	s.set(false, nil)
	for i, c := range theirs[:2] {
		if r := <-c.response; r.status != capsule.StatusAbortedByPreempt {
			t.Errorf("write %d, which the store had: %v", i, r.status)
		}
	}
	p.wantPending() // for the command that fetches its data
	b.io.call(func() { b.io.q.requests[fetching.index].ready() })
	if r := <-fetching.response; r.status != capsule.StatusAbortedByPreempt {
		t.Errorf("the write whose data came late: %v", r.status)
	}
	if r := <-p.response; !r.status.OK() {
		t.Fatalf("preempt: %v", r.status)
	}
	b.io.call(func() { b.io.q.requests[elsewhere.index].ready() })
	if r := <-elsewhere.response; !r.status.OK() {
		t.Errorf("a write to another namespace: %v", r.status)
	}
	b.wantAccess(2, false, false)
	a.wantAccess(2, true, true)
	f.wantNothingHeld(b.io)
}

// reservationPage reads the log page.
func (h *tenant) reservationPage() capsule.ReservationLog {
	h.admin.t.Helper()
	p, err := capsule.DecodeReservationLog(logInto(h.admin, capsule.LogReservation, capsule.ReservationLogSize, 0))
	if err != nil {
		h.admin.t.Fatal(err)
	}
	return p
}

func TestReservationNotices(t *testing.T) {
	f := newFixture(t)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	if p := b.reservationPage(); p != (capsule.ReservationLog{}) {
		t.Errorf("a page before anything happened: %+v", p)
	}
	event := func() *hostCommand { return b.admin.start(adminCommand(capsule.AdminAsyncEvent, nil, nil)) }
	wantEvent := func(c *hostCommand) {
		t.Helper()
		r := <-c.response
		if e := capsule.ParseAsyncEvent(uint32(r.result)); e != (capsule.AsyncEvent{Type: capsule.EventTypeIOSet, LID: capsule.LogReservation}) {
			t.Errorf("event %+v", e)
		}
	}
	shared := capsule.ReservationWriteExclusiveRegistrantsOnly
	a.register(capsule.StatusSuccess, 1)
	b.register(capsule.StatusSuccess, 1)
	aer := event()
	for range 2 {
		a.acquire(capsule.StatusSuccess, 1, shared)
		a.release(capsule.StatusSuccess, 1, shared)
	}
	wantEvent(aer)
	aer = event()
	aer.wantPending() // until the page is read
	want := capsule.ReservationLog{Count: 1, Notice: capsule.NoticeReservationReleased, Available: 1, NSID: 1}
	if p := b.reservationPage(); p != want {
		t.Errorf("first page %+v, want %+v", p, want)
	}
	wantEvent(aer)
	want.Count, want.Available = 2, 0
	if p := b.reservationPage(); p != want {
		t.Errorf("second page %+v, want %+v", p, want)
	}
	a.io.wantOK(a.preempt(1, capsule.PreemptReservation, writeExclusive, b.key))
	if p := b.reservationPage(); p.Notice != capsule.NoticeRegistrationPreempted || p.Count != 3 {
		t.Errorf("after the preemption %+v", p)
	}
	b.register(capsule.StatusSuccess, 1)
	a.io.wantOK(reserveCommand(capsule.IOReservationRelease, 1, capsule.ReservationCommand{Action: capsule.ClearReservation}, a.key, 0))
	if p := b.reservationPage(); p.Notice != capsule.NoticeReservationPreempted {
		t.Errorf("after all was cleared %+v", p)
	}
	if p := a.reservationPage(); p.Count != 0 {
		t.Errorf("the host that did it hears of %+v", p)
	}
}

// setFeature sets and gets a feature of one namespace.
func (h *tenant) setFeature(want capsule.Status, id capsule.FID, nsid capsule.NSID, v uint32) {
	h.admin.t.Helper()
	c := adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: id, Value: v}, nil)
	c.sqe.NSID = nsid
	h.admin.wantStatus(want, c)
}

func (h *tenant) feature(want capsule.Status, id capsule.FID, nsid capsule.NSID) uint64 {
	h.admin.t.Helper()
	c := adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: id}, nil)
	c.sqe.NSID = nsid
	return h.admin.wantStatus(want, c).result
}

func TestReservationFeatures(t *testing.T) {
	f := newFixture(t)
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20),
		Reservations: ReservationFile(filepath.Join(t.TempDir(), "r"))}); err != nil {
		t.Fatal(err)
	}
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	const mask, persist = capsule.FeatureReservationMask, capsule.FeatureReservationPersist
	ok, noNamespace := capsule.StatusSuccess, capsule.StatusInvalidNamespace|dnr
	b.setFeature(invalidField, mask, 1, 1)
	b.setFeature(noNamespace, mask, 9, 2)
	b.setFeature(ok, mask, 1, 1<<capsule.NoticeReservationReleased)
	if v := b.feature(ok, mask, 1); v != 4 {
		t.Errorf("mask %#x", v)
	}
	b.feature(noNamespace, mask, capsule.NSIDBroadcast)
	shared := capsule.ReservationWriteExclusiveRegistrantsOnly
	for nsid := capsule.NSID(1); nsid <= 2; nsid++ {
		a.register(ok, nsid)
		b.register(ok, nsid)
		a.acquire(ok, nsid, shared)
		a.release(ok, nsid, shared)
	}
	if p := b.reservationPage(); p.Count != 1 || p.NSID != 2 || p.Available != 0 {
		t.Errorf("page %+v, want only that of the namespace that is not masked", p)
	}
	b.setFeature(ok, mask, capsule.NSIDBroadcast, 0xe)
	if v := b.feature(ok, mask, 2); v != 0xe {
		t.Errorf("mask of all %#x", v)
	}
	a.setFeature(invalidField, persist, 1, 1)
	a.setFeature(ok, persist, 2, 1)
	if v, w := a.feature(ok, persist, 2), a.feature(ok, persist, 1); v != 1 || w != 0 {
		t.Errorf("persistence %d and %d", v, w)
	}
	a.setFeature(ok, persist, capsule.NSIDBroadcast, 0)
	if head, _ := a.report(2); head.Persist != 0 {
		t.Error("the report says that it persists")
	}
}

// TestReservationSurvives is row 85: the reservation survives a restart, and a damaged file is an error.
func TestReservationSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reservation")
	open := func(path string) (*fixture, error) {
		f := newFixture(t)
		_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Name: "disk.img", Reservations: ReservationFile(path)})
		return f, err
	}
	f, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	a := f.tenant("a", f.sub, 0)
	a.register(capsule.StatusSuccess, 2)
	if _, err := os.Stat(path); err == nil {
		t.Error("something was saved that need not survive")
	}
	a.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key))
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after := path + ".after" // a crash: the first target, which has the lock, was not closed
	if err := os.WriteFile(after, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = open(after); err != nil {
		t.Fatal(err)
	}
	b := f.tenant("b", f.sub, 0)
	b.wantAccess(2, false, false)
	if head, all := b.report(2); head.Type != exclusiveAccess || head.Persist != 1 || len(all) != 1 || all[0].Host != a.id {
		t.Errorf("after the restart %+v, %+v", head, all)
	}
	for name, content := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)/2], "changed": []byte(strings.Replace(string(whole), `"type":2`, `"type":1`, 1)), "other": []byte("hello\n"),
	} {
		if err := os.WriteFile(path+name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(path + name); err == nil || !strings.Contains(err.Error(), "disk.img") {
			t.Errorf("%s file: %v", name, err)
		}
	}
}

// TestReservationsOfTwoVolumesInOneFile: the second volume is refused.
func TestReservationsOfTwoVolumesInOneFile(t *testing.T) {
	f := newFixture(t)
	path := ReservationFile(filepath.Join(t.TempDir(), "r"))
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Name: "first", Reservations: path}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Reservations: path}); err == nil || !strings.Contains(err.Error(), "first") {
		t.Errorf("error %v, want one that names the first volume", err)
	}
}

// TestReservationsOfTwoTargetsInOneFile: the second target is refused as long as the first has the namespace.
func TestReservationsOfTwoTargetsInOneFile(t *testing.T) {
	first, second := newFixture(t), newFixture(t)
	path := ReservationFile(filepath.Join(t.TempDir(), "r"))
	add := func(f *fixture) error {
		_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Reservations: path})
		return err
	}
	first.must(add(first))
	if err := add(second); err == nil || !strings.Contains(err.Error(), "another target uses them") {
		t.Errorf("error %v, want one that names the other target", err)
	}
	first.must(first.sub.RemoveNamespace(2))
	second.must(add(second))
}

// brokenReservations cannot save.
type brokenReservations struct{ err error }

func (b *brokenReservations) Load() ([]byte, error) { return nil, nil }
func (b *brokenReservations) Save([]byte) error     { return b.err }

// TestReservationNotSaved: a change that cannot be saved has no effect, and that is logged.
func TestReservationNotSaved(t *testing.T) {
	f := newFixture(t)
	broken := &brokenReservations{}
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Reservations: broken}); err != nil {
		t.Fatal(err)
	}
	a := f.tenant("a", f.sub, 0)
	a.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key))
	broken.err = errors.New("disk is gone")
	a.acquire(capsule.StatusInternalError, 2, exclusiveAccess)
	if head, _ := a.report(2); head.Type != 0 {
		t.Error("the reservation is there")
	}
	if f.logs.FilterMessage("reservation not saved, command failed").Len() != 1 {
		t.Error("no log line about it")
	}
	before := f.target.log.Events.Last()
	for range 100 {
		a.acquire(capsule.StatusInternalError, 2, exclusiveAccess)
	}
	if n := f.target.log.Events.Last() - before; n > 50 { // equal events within ten seconds are counted as one
		t.Errorf("%d events by one host", n)
	}
	broken.err = nil
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
}
