package target

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestChangeIsOne: a host that a step of a change excludes gets a status that it retries until the change is
// complete. After that the status is final.
func TestChangeIsOne(t *testing.T) {
	const invalidParam = capsule.StatusConnectInvalidParam | dnr
	for name, c := range map[string]struct {
		out    func(*fixture)
		want   capsule.Status // after the change
		reason string
		remedy string
	}{
		"host removed": {func(f *fixture) { f.sub.RemoveHost(testHostNQN) }, capsule.StatusConnectInvalidHost | dnr, "host is not allowed", "nvmeof host add " + testHostNQN},
		"not exposed":  {func(f *fixture) { f.sub.SetPorts([]PortID{7}) }, invalidParam, "not exposed", "nvmeof subsystem set " + testSubNQN + " --listeners"},
		"subsystem removed": {func(f *fixture) {
			f.must(f.target.RemoveSubsystem(f.sub.nqn))
		}, invalidParam, "no such subsystem", "nvmeof subsystem add " + testSubNQN},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			connect := func(want capsule.Status, words ...string) {
				t.Helper()
				f.refused(want, dataOf(testSubNQN, testHostNQN), words...)
			}
			f.must(f.target.Change(func() error {
				c.out(f)
				connect(capsule.StatusConnectControllerBusy, "being changed", c.reason)
				f.must(f.target.Change(func() error { return nil })) // nested
				connect(capsule.StatusConnectControllerBusy)
				return nil
			}))
			connect(c.want, c.reason, "remedy="+c.remedy)
			failed := errors.New("failed")
			err := f.target.Change(func() error {
				connect(capsule.StatusConnectControllerBusy)
				if name == "subsystem removed" {
					var err error
					f.sub, err = f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN})
					f.must(err)
				}
				f.sub.SetPorts(nil)
				f.sub.AllowHost(testHostNQN)
				return failed
			})
			if !errors.Is(err, failed) {
				t.Errorf("error %v", err)
			}
			f.connectAdmin(0)
			// Malformed commands still fail permanently.
			bad := f.dial(0, 0, 32)
			f.must(f.target.Change(func() error {
				bad.wantStatus(invalidParam, connectCommand(capsule.Connect{SQSIZE: 31}, dataOf("", testHostNQN)))
				return nil
			}))
		})
	}
}

// TestJudgedDuringAChange: a decision that was made while a change was under way is not final when the change has
// ended meanwhile.
func TestJudgedDuringAChange(t *testing.T) {
	f := newFixture(t)
	mark := f.target.unsettled.mark()
	f.must(f.target.Change(func() error { return nil }))
	if no := notAllowed("a", "b").settle(f.target, mark); no.status != capsule.StatusConnectControllerBusy {
		t.Errorf("refused with %v", no.status)
	}
	if no := notAllowed("a", "b").settle(f.target, f.target.unsettled.mark()); no.status != capsule.StatusConnectInvalidHost|dnr {
		t.Errorf("refused with %v", no.status)
	}
}

// TestDiscoveryDuringAChange: the log stays the same until the change is complete, for hosts that follow it and
// for those that connect. Then the hosts whose logs have changed are notified.
func TestDiscoveryDuringAChange(t *testing.T) {
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	a, b := f.follow(testHostNQN), f.follow(otherHostNQN)
	f.must(f.target.Change(func() error {
		f.must(f.target.RemoveSubsystem(f.sub.nqn))
		a.untold()
		f.listen("192.0.2.1:4421")
		es, _ := f.connectDiscovery(testHostNQN).discover()
		if len(es) != 2 {
			t.Errorf("who comes sees\n%s", summary(es))
		}
		es, _ = f.connectDiscovery(otherHostNQN).discover()
		if len(es) != 1 {
			t.Errorf("who is not allowed sees\n%s", summary(es))
		}
		f.must(f.target.RemoveListener(2))
		var err error
		f.sub, err = f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN})
		f.must(err)
		f.sub.AllowHost(testHostNQN)
		a.untold()
		return nil
	}))
	a.untold()
	b.untold()
	f.must(f.target.Change(func() error {
		f.sub.AllowHost(otherHostNQN)
		b.untold()
		return nil
	}))
	b.notified(2)
	a.untold()
}

// TestRemedyIsQuoted: a peer chooses the names in its Connect command, and an administrator may copy the remedy to
// a shell.
func TestRemedyIsQuoted(t *testing.T) {
	f := newFixture(t)
	const name = "nqn.2014-08.org.example:$(reboot);`reboot`"
	f.sub.RemoveHost(testHostNQN)
	f.refused(capsule.StatusConnectInvalidHost|dnr, dataOf(testSubNQN, name), "remedy=nvmeof host add '"+name+"' -n "+testSubNQN+";", "--allow-host '"+name+"'")
	f.refused(capsule.StatusConnectInvalidParam|dnr, dataOf(name, testHostNQN), "remedy=nvmeof subsystem add '"+name+"', or start the target with --nqn '"+name+"'")
	f.refused(capsule.StatusConnectInvalidHost|dnr, dataOf(testSubNQN, "nqn.2014-08.org.example:it's me"), `host add 'nqn.2014-08.org.example:it'\''s me' -n`)
}
