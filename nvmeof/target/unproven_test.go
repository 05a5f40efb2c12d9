package target

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestUnprovenQueuesHarmNobody: a peer that knows a host's names but not its key, and connects I/O queues before
// the host does, does not exclude the host, and keeps none of its associations alive.
func TestUnprovenQueuesHarmNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		h := k.dial(0, 0, 32)
		r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31, KATO: 1000}, connectData()))
		h.authenticate(k.exchange())
		h.setCC(linuxCC)
		h.setCC(linuxCC.WithEnable(true))
		id := capsule.ParseConnectResponse(r.result).CNTLID

		thief, _ := k.connect(1, id)
		h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues, Value: 0x10001}, nil))
		io, _ := k.connect(1, id)
		other, _ := k.connect(1, id) // also of the host, and one too many
		io.authenticate(k.exchange())
		io.wantOK(readOf(1))
		thief.wantStatus(required, readOf(1))
		other.authenticate(k.exchange())
		<-other.closed
		io.wantOK(readOf(1))
		if info := k.target.Controllers(); len(info) != 1 || len(info[0].Queues) != 1 {
			t.Errorf("controllers: %+v", info)
		}

		io.lose()
		start := time.Now()
		for !h.gone() {
			thief.wantStatus(required, readOf(1)) // it does not count as a command of the host
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("a host that is gone is given up after %v", d)
		}
		<-thief.closed // it ends with the association
		k.close2(t)
	})
}

// TestUnprovenDuplicates: if a host may have only one controller through a listener, one that has not
// authenticated excludes no other, and of two that authenticate the first stays.
func TestUnprovenDuplicates(t *testing.T) {
	k := newKeyed(t)
	s, err := k.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2", RefuseDuplicates: true})
	k.must(err)
	k.must(s.SetHost(HostConfig{NQN: testHostNQN, DHCHAPKey: k.key, DHCHAPGroups: []auth.Group{auth.GroupNull}}))
	exchange := func() *auth.Host {
		return k.exchange(func(c *auth.HostConfig) { c.SubsystemNQN, c.ControllerKey = s.nqn, auth.Key{} })
	}
	var all [3]*hostQueue
	for i := range all {
		all[i] = k.dial(0, 0, 32)
		all[i].wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, dataOf(s.nqn, testHostNQN)))
	}
	all[1].authenticate(exchange())
	all[1].property(capsule.PropertyCSTS)
	all[2].authenticate(exchange())
	if !all[2].gone() {
		t.Error("the second of two that have authenticated stays")
	}
	k.refused(capsule.StatusConnectControllerBusy, dataOf(s.nqn, testHostNQN), "already", "--refuse-duplicates=false")
	all[1].property(capsule.PropertyCSTS)
}

// TestMoveBesideStrangers: a connection that does not continue its authentication does not prevent a move.
func TestMoveBesideStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(7, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		if err := r.sub.SetHost(HostConfig{NQN: testHostNQN + "2", DHCHAPKey: newKey(t)}); err != nil {
			t.Fatal(err)
		}
		_, io := r.controller(1)
		r.dial(0, 32) // a connection without a Connect command moves too
		stranger := r.dial(0, 32)
		d := connectData()
		d.HostNQN, d.CNTLID = capsule.MakeNQNField(testHostNQN+"2"), capsule.ControllerIDDynamic
		d.HostID[0] ^= 0xff
		d.Encode(stranger.bytes(0, capsule.ConnectDataSize))
		cmd := capsule.FabricsCommand(capsule.FabricsConnect)
		capsule.Connect{SQSIZE: 31}.Put(&cmd)
		stranger.do(cmd, 0, capsule.ConnectDataSize)
		r.move(n)
		<-stranger.ended
		io[0].do(rwCommand(capsule.IORead, 0, 1), 0, 4096)
		r.close()
	})
}
