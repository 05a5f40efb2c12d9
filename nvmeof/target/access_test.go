package target

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestMasking: two hosts see different namespaces of one subsystem, in every list and by every command.
func TestMasking(t *testing.T) {
	f := newFixture(t)
	f.export(newFakeStore(1 << 20)) // 2
	f.export(newFakeStore(1 << 20)) // 3
	f.must(f.sub.SetHost(HostConfig{NQN: otherHostNQN, Access: AccessNone,
		Namespaces: map[capsule.NSID]Access{2: AccessWrite, 3: AccessRead}}))
	all, some := f.associate(testHostNQN, f.at), f.associate(otherHostNQN, f.at)
	all.sees(1, 2, 3)
	some.sees(2, 3)
	if ns := some.identify(1); ns != (capsule.IdentifyNamespace{}) {
		t.Error("Identify reports a namespace that the host does not see")
	}
	invalid := capsule.StatusInvalidNamespace | dnr
	some.admin.wantStatus(invalid, identifyOf(capsule.CNSDescriptors, 1))
	for _, c := range []*hostCommand{readOf(1), writeOf(1),
		ioCommand(capsule.IOFlush, 1, nil, nil),
		ioCommand(capsule.IOWriteZeroes, 1, capsule.ReadWrite{Blocks: 1}, nil),
		ioCommand(capsule.IODatasetManagement, 1, capsule.DatasetManagement{Ranges: 1, Deallocate: true}, make([]byte, 16)),
	} {
		some.io.wantStatus(invalid, c)
	}
	some.io.wantOK(writeOf(2))
	some.io.wantOK(readOf(3))
	all.io.wantOK(writeOf(3))
	protected := capsule.StatusNamespaceWriteProtected | dnr
	some.io.wantStatus(protected, writeOf(3))
	some.io.wantStatus(protected, ioCommand(capsule.IOWriteZeroes, 3, capsule.ReadWrite{Blocks: 1}, nil))
	f.remedied("write refused", "nvmeof host set "+otherHostNQN+" -n "+testSubNQN+" --access write, or --namespace 3=write")
	if some.identify(3).NSATTR&capsule.NSATTRWriteProt == 0 || all.identify(3).NSATTR != 0 {
		t.Error("NSATTR does not report who may write")
	}
	list := identifyInto(all.admin, capsule.CNSNamespaceControllers, 1)
	if list[0] != 1 || capsule.ControllerID(list[2])|capsule.ControllerID(list[3])<<8 != all.id {
		t.Errorf("controllers of namespace 1: % x", list[:8])
	}
	if list := identifyInto(all.admin, capsule.CNSControllers, 0); list[0] != 2 {
		t.Errorf("controllers of the subsystem: % x", list[:8])
	}
}

func identifyOf(cns capsule.CNS, id capsule.NSID) *hostCommand {
	c := adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: cns}, make([]byte, 4096))
	c.sqe.NSID = id
	return c
}

// TestRightsChangeLive: a host is notified of changes that concern it; other hosts are not.
func TestRightsChangeLive(t *testing.T) {
	f := newFixture(t)
	f.export(newFakeStore(1 << 20))
	f.sub.AllowHost(otherHostNQN)
	a, b := f.associate(testHostNQN, f.at), f.associate(otherHostNQN, f.at)
	ea, eb := a.event(), b.event()
	f.must(f.sub.SetAccess(testHostNQN, 2, AccessNone))
	a.wantChanged(ea, 2)
	a.sees(1)
	a.io.wantStatus(capsule.StatusInvalidNamespace|dnr, readOf(2))
	ea = a.event()
	f.must(f.sub.SetAccess(testHostNQN, 2, AccessRead))
	a.wantChanged(ea, 2)
	a.io.wantOK(readOf(2))
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(2))
	eb.wantPending()
	f.must(f.sub.SetHost(HostConfig{NQN: otherHostNQN, Access: AccessRead}))
	b.wantChanged(eb, 1, 2)
	b.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))

	ea, eb = a.event(), b.event()
	f.must(f.sub.SetAccess(testHostNQN, 3, AccessNone)) // a namespace that is added later
	f.export(newFakeStore(1 << 20))
	b.wantChanged(eb, 3)
	ea.wantPending()
	a.sees(1, 2)
	if hosts := f.sub.Hosts(); len(hosts) != 2 || hosts[0].NQN != testHostNQN || hosts[0].Namespaces[2] != AccessRead {
		t.Errorf("hosts %+v", hosts)
	}
}

// TestReadOnlySwitch tests SetReadOnly.
func TestReadOnlySwitch(t *testing.T) {
	f := newFixture(t)
	a := f.associate(testHostNQN, f.at)
	ns := f.sub.Namespaces()[0]
	e := a.event()
	ns.SetReadOnly(true)
	a.wantChanged(e, 1)
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
	f.remedied("write refused", "nvmeof namespace set 1 -n "+testSubNQN+" --read-only=false")
	a.io.wantOK(readOf(1))
	if a.identify(1).NSATTR&capsule.NSATTRWriteProt == 0 {
		t.Error("NSATTR does not report it")
	}
	e = a.event()
	ns.SetReadOnly(false)
	a.wantChanged(e, 1)
	a.io.wantOK(writeOf(1))
	ns.SetReadOnly(false) // no change, no event
	a.event().wantPending()
}

// TestRemoveHost: the host's connections end with one log line. It is then refused with one that names the remedy,
// by which it can return. Other hosts stay connected.
func TestRemoveHost(t *testing.T) {
	f := newFixture(t)
	f.sub.AllowHost(otherHostNQN)
	a, b := f.associate(testHostNQN, f.at), f.associate(otherHostNQN, f.at)
	f.logs.TakeAll()
	f.sub.RemoveHost(testHostNQN)
	<-a.admin.closed
	<-a.io.closed
	if all := f.logs.FilterMessage("host removed").All(); len(all) != 1 || !strings.Contains(all[0].ContextMap()["remedy"].(string), testHostNQN) {
		t.Errorf("lines %v", f.logs.All())
	}
	if n := f.logged("association ended"); n != 0 {
		t.Errorf("%d more lines", n)
	}
	b.io.wantOK(readOf(1))
	f.refused(capsule.StatusConnectInvalidHost|dnr, dataOf(f.sub.nqn, testHostNQN), "not allowed", "--allow-host "+testHostNQN)
	f.sub.AllowHost(testHostNQN)
	f.associate(testHostNQN, f.at).io.wantOK(readOf(1))

	f.sub.AllowAnyHost(true)
	c := f.associate("nqn.2026-11.io.example:third", f.at)
	f.sub.RemoveHost(otherHostNQN) // still allowed, as any host is
	b.io.wantOK(readOf(1))
	f.sub.AllowAnyHost(false)
	<-c.admin.closed
	<-b.admin.closed
}

func TestHostsAreJudged(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]HostConfig{
		"no name":        {},
		"newline":        {NQN: "nqn.a\nb"},
		"access 3":       {NQN: otherHostNQN, Access: 3},
		"namespace 0":    {NQN: otherHostNQN, Namespaces: map[capsule.NSID]Access{0: AccessRead}},
		"namespace 4097": {NQN: otherHostNQN, Namespaces: map[capsule.NSID]Access{4097: AccessRead}},
		"access 9":       {NQN: otherHostNQN, Namespaces: map[capsule.NSID]Access{1: 9}},
	} {
		if f.sub.SetHost(c) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if f.sub.SetAccess(otherHostNQN, 1, AccessRead) == nil {
		t.Error("a right of a host that is not allowed is accepted")
	}
	if len(f.sub.Hosts()) != 1 {
		t.Error("a host that was refused is there")
	}
}
