package target

import (
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A groupState is a descriptor of the ANA log.
type groupState struct {
	capsule.ANADescriptor
	ids []capsule.NSID
}

// readANA reads the log with one command.
func (a *association) readANA(lsp uint8) (head capsule.ANALogHeader, groups []groupState) {
	a.f.t.Helper()
	b := make([]byte, 8192)
	a.admin.wantOK(adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogANA, LSP: lsp, Length: uint64(len(b))}, b))
	head, err := capsule.DecodeANALogHeader(b)
	a.f.must(err)
	b = b[capsule.ANALogHeaderSize:]
	for range head.NGRPS {
		d, err := capsule.DecodeANADescriptor(b)
		a.f.must(err)
		g := groupState{ANADescriptor: d}
		b = b[capsule.ANADescriptorHeader:]
		for range d.NNSIDS {
			g.ids = append(g.ids, capsule.NSIDAt(b, 0))
			b = b[4:]
		}
		groups = append(groups, g)
	}
	return head, groups
}

func states(groups []groupState) (s string) {
	for _, g := range groups {
		s += fmt.Sprintf("%d %v %v\n", g.Group, g.State, g.ids)
	}
	return s
}

// TestANAStates is row 84: the status of I/O commands in each state, by path.
func TestANAStates(t *testing.T) {
	f := newFixture(t)
	far, near := f.listen("192.0.2.1:4421"), f.listen("192.0.2.1:4420")
	f.must(f.export(newFakeStore(1 << 20)).SetGroup(7))
	a, b := f.associate(testHostNQN, near), f.associate(testHostNQN, far)
	for _, c := range []struct {
		state capsule.ANAState
		want  capsule.Status
	}{
		{capsule.ANANonOptimized, capsule.StatusSuccess},
		{capsule.ANAInaccessible, capsule.StatusANAInaccessible},
		{capsule.ANAPersistentLoss, capsule.StatusANAPersistentLoss},
		{capsule.ANAChange, capsule.StatusANATransition},
		{capsule.ANAOptimized, capsule.StatusSuccess},
	} {
		ea, eb := a.event(), b.event()
		f.must(far.SetANAState(7, c.state))
		b.wantEvent(eb, capsule.NoticeANAChange, capsule.LogANA)
		ea.wantPending()
		f.must(far.SetANAState(7, c.state)) // no change
		for _, cmd := range []*hostCommand{readOf(2), writeOf(2), ioCommand(capsule.IOFlush, 2, nil, nil)} {
			b.io.wantStatus(c.want, cmd)
		}
		a.io.wantOK(writeOf(2))
		b.io.wantOK(writeOf(1)) // another group
		_, groups := b.readANA(0)
		if got, want := states(groups), fmt.Sprintf("1 optimized [1]\n7 %v [2]\n", c.state); got != want {
			t.Errorf("log\n%swant\n%s", got, want)
		}
		if far.ANAState(7) != c.state || near.ANAState(7) != capsule.ANAOptimized {
			t.Error("the listeners report other states")
		}
		// Identify works in every state, and so do the log pages.
		b.sees(1, 2)
		ns := b.identify(2)
		if lost := c.state == capsule.ANAInaccessible || c.state == capsule.ANAPersistentLoss; ns.NSZE == 0 || lost != (ns.NUSE == 0) {
			t.Errorf("in state %v NSZE is %d, NUSE %d", c.state, ns.NSZE, ns.NUSE)
		}
		flush := ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil)
		b.io.wantStatus(c.want, flush)
		a.admin.wantOK(adminCommand(capsule.AdminAbort, capsule.Abort{CID: ea.sqe.CID}, nil))
	}
}

// TestANALog: the change counts change if and only if the log does.
func TestANALog(t *testing.T) {
	f := newFixture(t)
	l := f.listen("192.0.2.1:4420")
	a := f.associate(testHostNQN, l)
	before, groups := a.readANA(0)
	if again, _ := a.readANA(0); again != before {
		t.Errorf("header %+v, then %+v, and nothing happened", before, again)
	}
	if len(groups) != 1 || groups[0].NNSIDS != 1 {
		t.Fatalf("groups %+v", groups)
	}
	moved := func(what string, change func()) {
		t.Helper()
		old, _ := a.readANA(0)
		change()
		if now, _ := a.readANA(0); now.CHGCNT <= old.CHGCNT {
			t.Errorf("%s: count %d, before %d", what, now.CHGCNT, old.CHGCNT)
		}
	}
	var ns *Namespace
	moved("a namespace more", func() { ns = f.export(newFakeStore(1 << 20)) })
	moved("a namespace changes its group", func() { f.must(ns.SetGroup(128)) })
	moved("a state changes", func() { f.must(l.SetANAState(128, capsule.ANANonOptimized)) })
	_, groups = a.readANA(0)
	if got, want := states(groups), "1 optimized [1]\n128 non-optimized [2]\n"; got != want {
		t.Errorf("log\n%swant\n%s", got, want)
	}
	if groups[0].CHGCNT != 3 || groups[1].CHGCNT != 2 { // group 1: two were added, one removed; 128: one was added, and its state changed
		t.Errorf("counts of the groups %d and %d", groups[0].CHGCNT, groups[1].CHGCNT)
	}
	if _, short := a.readANA(capsule.ANALogGroupsOnly); states(short) != "1 optimized []\n128 non-optimized []\n" {
		t.Errorf("groups only:\n%s", states(short))
	}
	moved("a host loses the right", func() { f.must(f.sub.SetAccess(testHostNQN, 2, AccessNone)) })
	if _, groups = a.readANA(0); states(groups) != "1 optimized [1]\n" {
		t.Errorf("log of a host that sees one:\n%s", states(groups))
	}
	c, err := capsule.DecodeIdentifyController(identifyInto(a.admin, capsule.CNSController, 0))
	if err != nil || c.ANACAP != 0x1f || c.ANATT == 0 || c.ANAGRPMAX != 129 || c.NANAGRPID != 129 || c.MNAN == 0 {
		t.Errorf("identify controller: %+v, %v", c, err)
	}
	if l.SetANAState(0, capsule.ANAChange) == nil || l.SetANAState(129, capsule.ANAChange) == nil ||
		l.SetANAState(1, 5) == nil || ns.SetGroup(0) == nil || ns.SetGroup(129) == nil {
		t.Error("a group or state that does not exist is accepted")
	}
}

// TestFeaturesByPath: a namespace's feature is only accessible through a path on which the namespace is.
func TestFeaturesByPath(t *testing.T) {
	f := newFixture(t)
	near := f.listen("192.0.2.1:4420")
	a := f.associate(testHostNQN, near)
	get := func(id capsule.FID, nsid capsule.NSID) *hostCommand {
		c := adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: id}, nil)
		c.sqe.NSID = nsid
		return c
	}
	for _, state := range []capsule.ANAState{capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange, capsule.ANANonOptimized} {
		f.must(near.SetANAState(1, state))
		for _, id := range []capsule.FID{capsule.FeatureReservationMask, capsule.FeatureReservationPersist, capsule.FeatureNamespaceWriteProtect} {
			a.admin.wantStatus(near.ana.Load().Status(1), get(id, 1))
			a.admin.wantStatus(capsule.StatusInvalidNamespace|dnr, get(id, 2))
		}
		a.admin.wantStatus(near.ana.Load().Status(1), protect(1, 0))
		a.admin.wantOK(get(capsule.FeatureVolatileWriteCache, 0))
	}
}
