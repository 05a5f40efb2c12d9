package storage

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// fourOf returns a table with namespaces 1 to 4 in the groups 1 to 4, of which 3 was removed.
func fourOf() *Table {
	t := new(Table)
	for id := capsule.NSID(1); id <= 4; id++ {
		n := NewNamespace(Identity{ID: id}, capsule.ANAGroup(id), false)
		n.Volume = &Volume{Info: backend.Info{}}
		t = t.With(id, n)
	}
	return t.With(3, nil)
}

func TestTable(t *testing.T) {
	a := fourOf()
	b := a.With(3, NewNamespace(Identity{ID: 3}, 1, false)) // which is away
	if a.At(3) != nil || b.At(3) == nil || b.Get(3) != nil || b.Get(4) == nil || a.Get(0) != nil || a.Get(5) != nil || a.Get(capsule.NSIDBroadcast) != nil {
		t.Error("a table finds what it has not, or has changed")
	}
	none := func(capsule.NSID) bool { return false }
	if a.Free(none) != 3 || b.Free(none) != 5 || new(Table).Free(none) != 1 || b.Free(func(id capsule.NSID) bool { return id == 5 }) != 6 {
		t.Errorf("free are %d, %d and %d", a.Free(none), b.Free(none), new(Table).Free(none))
	}
}

func TestClashes(t *testing.T) {
	a := Identity{UUID: [16]byte{1}, NGUID: [16]byte{1}}
	for _, c := range []struct {
		b    Identity
		want bool
	}{
		{Identity{UUID: [16]byte{2}, NGUID: [16]byte{2}}, false}, // neither has an EUI-64
		{Identity{UUID: [16]byte{1}, NGUID: [16]byte{2}}, true},
		{Identity{UUID: [16]byte{2}, NGUID: [16]byte{1}}, true},
	} {
		if a.Clashes(&c.b) != c.want {
			t.Errorf("%+v and %+v", a, c.b)
		}
	}
	x, y := Identity{UUID: [16]byte{1}, EUI64: [8]byte{7}}, Identity{UUID: [16]byte{2}, NGUID: [16]byte{2}, EUI64: [8]byte{7}}
	if !x.Clashes(&y) {
		t.Error("two with one EUI-64 do not clash")
	}
}

// TestView: rights hide a namespace, ANA states make it inaccessible, and both give the right status.
func TestView(t *testing.T) {
	var table atomic.Pointer[Table]
	var paths atomic.Pointer[ana.Table]
	four := fourOf()
	table.Store(four)
	p, err := ana.NewTable(map[capsule.ANAGroup]capsule.ANAState{4: capsule.ANAInaccessible})
	if err != nil {
		t.Fatal(err)
	}
	paths.Store(p)
	v := View{Table: &table, Paths: &paths}
	want := func(what string, ids []capsule.NSID, status ...capsule.Status) {
		t.Helper()
		if got := v.Above(0); !slices.Equal(got, ids) {
			t.Errorf("%s: the host sees %v, want %v", what, got, ids)
		}
		for i, s := range status {
			if _, got := v.Reach(capsule.NSID(i + 1)); got != s {
				t.Errorf("%s: namespace %d: %v, want %v", what, i+1, got, s)
			}
		}
	}
	const ok, away = capsule.StatusSuccess, capsule.StatusANAInaccessible
	const none = capsule.StatusInvalidNamespace | capsule.StatusDNR
	want("all rights", []capsule.NSID{1, 2, 4}, ok, ok, none, away, none)
	v.Rights.Store(access.NewRights(access.Read, map[capsule.NSID]access.Level{1: access.Write, 4: access.None}))
	want("some rights", []capsule.NSID{1, 2}, ok, ok, none, none)
	three := four.With(3, NewNamespace(Identity{ID: 3}, 2, false))
	table.Store(three)
	v.Rights.Store(nil)
	want("one that is away", []capsule.NSID{1, 2, 3, 4}, ok, ok, away, away)
	if m := v.Members(); !slices.Equal(m[2], []capsule.NSID{2}) || !slices.Equal(m[ana.Away], []capsule.NSID{3}) || !v.Sees(ana.Away) || v.Sees(3) {
		t.Errorf("the groups are %v", m)
	}
	for n := range v.All {
		if n.ID == 3 {
			t.Error("one that is away is among those that can be used")
		}
	}
	table.Store(four)
	v.Rights.Store(access.NewRights(access.Read, map[capsule.NSID]access.Level{1: access.Write, 4: access.None}))
	one, two := v.Find(1), v.Find(2)
	if !v.MayWrite(one) || v.MayWrite(two) || v.Sees(4) || !v.Sees(2) || v.Last() != 4 {
		t.Error("rights do not count")
	}
	if one.SetReadOnly(true); v.MayWrite(one) || one.SetReadOnly(true) {
		t.Error("a namespace that is read-only can be written")
	}
	one.SetReadOnly(false)
	if one.Protect(capsule.WriteProtected); v.MayWrite(one) {
		t.Error("a namespace that a host protected can be written")
	}
	for id, s := range map[capsule.NSID]capsule.Status{0: none, 3: ok, MaxNamespace: ok, MaxNamespace + 1: none} {
		if _, got := v.Lookup(id); got != s {
			t.Errorf("looking up %d: %v, want %v", id, got, s)
		}
	}
}

// A visitor owns an operation, and records that it was admitted.
type visitor struct {
	Owner
	in string
}

func (v *visitor) Wanted(time.Duration) {}
func (v *visitor) Admitted()            { v.in += "x" }

// TestGate: waiting operations enter in order, and the end of the last one inside is reported.
func TestGate(t *testing.T) {
	n, idle := NewNamespace(Identity{ID: 1}, 1, false), 0
	n.Volume = &Volume{Reservations: new(Reservations)}
	g := &Gate{Namespace: n, Lane: &Lane{users: 1, listed: true}}
	n.gates[0].Store(g)
	enter := func(op *Operation, want Entry) {
		t.Helper()
		if got := n.Enter(op, 0, capsule.HostID{}, reservation.Read); got != want {
			t.Errorf("entry %d, want %d", got, want)
		}
	}
	var inside, again Operation
	enter(&inside, Entered)
	g.close(func() { idle++ })
	if !g.Shut() || idle != 0 {
		t.Error("it is idle with somebody inside")
	}
	var first, second visitor
	a, b := &Operation{Owner: &first}, &Operation{Owner: &second}
	enter(a, Held)
	enter(b, Held)
	a.Forget()
	if inside.Release(); idle != 1 {
		t.Error("the last that left was not reported")
	}
	if g.open(); g.Shut() || second.in != "x" || first.in != "" {
		t.Errorf("let in: %q, of those who have gone: %q", second.in, first.in)
	}
	enter(&again, Entered)
	if again.Release(); idle != 1 {
		t.Error("idle is called twice")
	}
}

// TestGateTwice: all functions that wait until no operation is inside are called, however the gate is used
// meanwhile.
func TestGateTwice(t *testing.T) {
	pause := func(g *Gate, idle func()) { g.close(idle) }
	pauseInVain := func(g *Gate, idle func()) {
		g.close(idle)
		g.open()
	}
	for i, ask := range [][2]func(*Gate, func()){
		{(*Gate).drain, (*Gate).drain}, {(*Gate).drain, pause}, {(*Gate).drain, pauseInVain}, {pause, (*Gate).drain},
	} {
		var notified [2]int
		g := &Gate{users: 1}
		for who, f := range ask {
			f(g, func() { notified[who]++ })
		}
		if g.leave(); notified != [2]int{1, 1} {
			t.Errorf("pair %d: notified %v times", i, notified)
		}
		if g.report(); notified != [2]int{1, 1} {
			t.Errorf("pair %d: notified again: %v", i, notified)
		}
	}
}

// A slowStore takes long to report how much is allocated.
type slowStore struct {
	backend.Store
	asked func()
}

func (s *slowStore) Info() backend.Info        { return backend.Info{Size: 1 << 20, BlockSize: 512} }
func (s *slowStore) Refresh() (bool, error)    { return false, nil }
func (s *slowStore) Allocated() (int64, error) { s.asked(); return 4096, nil }

// TestOpenSlowStore: nothing waits for a store that does not answer while a namespace of it is added, and when
// that is done it is known how much is allocated.
func TestOpenSlowStore(t *testing.T) {
	var all Volumes
	all.Init(1, nil)
	times := 0
	s := &slowStore{asked: func() {
		if times++; !all.mu.TryLock() {
			t.Error("the store is asked while all others wait")
			return
		}
		all.mu.Unlock()
	}}
	n := NewNamespace(Identity{ID: 1}, 1, false)
	if err := all.Acquire(s, "slow", nil, reservation.Owner{}, n); err != nil {
		t.Fatal(err)
	}
	if used := n.Volume.Used(); used != 8 || times != 1 {
		t.Errorf("%d blocks are used, and it was asked %d times", used, times)
	}
}
