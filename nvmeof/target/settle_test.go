package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestWhoMayStay: hosts are checked against the result of a change of several steps.
func TestWhoMayStay(t *testing.T) {
	for name, c := range map[string]struct {
		before, change func(s *Subsystem)
		stays          bool
	}{
		"from any host to a list": {
			before: func(s *Subsystem) { s.AllowAnyHost(true); s.RemoveHost(testHostNQN) },
			change: func(s *Subsystem) { s.AllowAnyHost(false); s.AllowHost(testHostNQN) },
			stays:  true,
		},
		"from a list to any host": {
			change: func(s *Subsystem) { s.RemoveHost(testHostNQN); s.AllowAnyHost(true) },
			stays:  true,
		},
		"to a list of others": {
			before: func(s *Subsystem) { s.AllowAnyHost(true); s.RemoveHost(testHostNQN) },
			change: func(s *Subsystem) { s.AllowAnyHost(false); s.AllowHost(otherHostNQN) },
		},
		"taken out":             {change: func(s *Subsystem) { s.RemoveHost(testHostNQN) }},
		"shown elsewhere, back": {change: func(s *Subsystem) { s.SetPorts([]PortID{9}); s.SetPorts(nil) }, stays: true},
		"shown elsewhere":       {change: func(s *Subsystem) { s.SetPorts([]PortID{9}) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if c.before != nil {
				c.before(f.sub)
			}
			a := f.associate(testHostNQN, f.at)
			f.must(f.target.Change(func() error {
				c.change(f.sub)
				// A host that may have to go does not see namespaces that are added meanwhile.
				f.export(newFakeStore(1 << 20))
				return nil
			}))
			if !c.stays {
				<-a.io.closed
				<-a.admin.closed
				return
			}
			a.io.wantOK(readOf(1))
			a.sees(1, 2)
			a.io.wantOK(writeOf(2))
		})
	}
}

// TestWithheld: a host that a step of a change removes does not see what later steps add, and keeps what it has
// until the end.
func TestWithheld(t *testing.T) {
	f := newFixture(t)
	a := f.associate(testHostNQN, f.at)
	f.must(f.target.Change(func() error {
		f.sub.RemoveHost(testHostNQN)
		f.export(newFakeStore(1 << 20))
		a.sees(1)
		a.io.wantOK(readOf(1))
		return nil
	}))
	<-a.admin.closed
}

// TestConfigure: a changed configuration of a subsystem applies to hosts that connect later. Connected hosts, and
// their settings, stay.
func TestConfigure(t *testing.T) {
	f := newFixture(t)
	a := f.associate(testHostNQN, f.at)
	protect := adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNamespaceWriteProtect, Value: 1}, nil)
	protect.sqe.NSID = 1
	a.admin.wantOK(protect)
	c := SubsystemConfig{Serial: "12", Model: "another", MinController: 500, MaxController: 500, Version: capsule.MakeVersion(1, 4, 0)}
	f.must(f.sub.Configure(c))
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
	was, err := capsule.DecodeIdentifyController(identifyInto(a.admin, capsule.CNSController, 0))
	f.must(err)
	b := f.associate(testHostNQN, f.at)
	now, err := capsule.DecodeIdentifyController(identifyInto(b.admin, capsule.CNSController, 0))
	f.must(err)
	if text := string(now.SN[:2]) + string(now.MN[:7]); text != "12another" || b.id != 500 || now.VER != c.Version {
		t.Errorf("a new controller %d of version %v is %q", b.id, now.VER, text)
	}
	if was.SN == now.SN || was.VER == now.VER {
		t.Error("a controller that was there has changed")
	}
	if f.sub.Configure(SubsystemConfig{MinController: 7, MaxController: 6}) == nil {
		t.Error("a range that is none is accepted")
	}
}
