package badinput

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// refusedConnect sends a Connect for a subsystem other than the lab's, which must be refused, and then a correct one
// on the same connection.
func (l *lab) refusedConnect(change func(*capsule.ConnectData), want capsule.Status) {
	l.t.Helper()
	c, r := l.gremlin.open()
	c.establish(r)
	cmd := connectCommand(0, 32)
	cmd.SGL = capsule.InCapsuleSGL(0, capsule.ConnectDataSize)
	d, b := connectData(capsule.ControllerIDDynamic), make([]byte, capsule.ConnectDataSize)
	change(d)
	d.Encode(b)
	l.gremlin.send(c.capsule(cmd, b)...)
	if cqe, ok := c.responses()[c.cid]; !ok || cqe.Status != want {
		l.t.Errorf("answered %v with %v, want %v", ok, cqe.Status, want)
	}
	c.connect()
	c.alive()
}

// TestExposure is row 43: what a host is not allowed to use because of its name, the listener it came through, or a
// change by the administrator.
func TestExposure(t *testing.T) {
	const other = subNQN + ":other"
	add := func(l *lab) *target.Subsystem {
		s, err := l.target.AddSubsystem(target.SubsystemConfig{NQN: other})
		l.must(err)
		return s
	}
	named := func(d *capsule.ConnectData) { d.SubNQN = capsule.MakeNQNField(other) }
	param, host := capsule.StatusConnectInvalidParam|capsule.StatusDNR, capsule.StatusConnectInvalidHost|capsule.StatusDNR
	test(t, []attack{
		{row: "43 subsystem on another listener", run: func(l *lab) {
			s := add(l)
			s.AllowAnyHost(true)
			_, err := l.target.Listen(netip.AddrPortFrom(targetAddr, ownerPort+1))
			l.must(err)
			s.SetPorts([]target.PortID{2})
			l.refusedConnect(named, param)
		}},
		{row: "43 subsystem on no listener", run: func(l *lab) {
			s := add(l)
			s.AllowAnyHost(true)
			s.SetPorts([]target.PortID{})
			l.refusedConnect(named, param)
		}},
		{row: "43 subsystem that was removed", run: func(l *lab) {
			add(l)
			l.must(l.target.RemoveSubsystem(other))
			l.refusedConnect(named, param)
		}},
		{row: "43 host without an entry", run: func(l *lab) {
			add(l)
			l.refusedConnect(named, host)
		}},
		{row: "43 host that was removed", run: func(l *lab) {
			s := add(l)
			s.AllowHost(hostNQN)
			s.RemoveHost(hostNQN)
			l.refusedConnect(named, host)
		}},
	})
}

// TestPathStates is rows 75, 76 and 84 for a well-behaved host: commands fail with the right status after the
// administrator removes something, and work again when it is restored.
func TestPathStates(t *testing.T) {
	within := func(row string, want capsule.Status, take, giveBack func(l *lab, s *target.Subsystem)) attack {
		return attack{row: row, run: func(l *lab) {
			s := l.target.Subsystems()[0]
			take(l, s)
			read := capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite), NSID: 1}
			capsule.ReadWrite{Blocks: 1}.Put(&read)
			if got := l.host.try(read, 4096).Status; got != want {
				t.Errorf("%s: %v, want %v", row, got, want)
			}
			giveBack(l, s)
		}}
	}
	ana := func(state capsule.ANAState) func(*lab, *target.Subsystem) {
		return func(l *lab, _ *target.Subsystem) { l.must(l.target.Listeners()[0].SetANAState(1, state)) }
	}
	access := func(a target.Access) func(*lab, *target.Subsystem) {
		return func(l *lab, s *target.Subsystem) { l.must(s.SetAccess(hostNQN, 1, a)) }
	}
	readOnly := func(on bool) func(*lab, *target.Subsystem) {
		return func(_ *lab, s *target.Subsystem) { s.Namespaces()[0].SetReadOnly(on) }
	}
	protected := capsule.StatusNamespaceWriteProtected | capsule.StatusDNR
	optimized := ana(capsule.ANAOptimized)
	test(t, []attack{
		within("84 inaccessible", capsule.StatusANAInaccessible, ana(capsule.ANAInaccessible), optimized),
		within("84 persistent loss", capsule.StatusANAPersistentLoss, ana(capsule.ANAPersistentLoss), optimized),
		within("84 change", capsule.StatusANATransition, ana(capsule.ANAChange), optimized),
		within("84 non-optimized", capsule.StatusSuccess, ana(capsule.ANANonOptimized), optimized),
		within("75 masked", capsule.StatusInvalidNamespace|capsule.StatusDNR, access(target.AccessNone), access(target.AccessWrite)),
		within("76 read-only for the host", protected, access(target.AccessRead), access(target.AccessWrite)),
		within("76 read-only", protected, readOnly(true), readOnly(false)),
	})
}
