package target

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// shares returns which shares a queue uses.
func (h *hostQueue) shares() (strangers, named bool, parties []partyName) {
	h.t.Helper()
	h.call(func() {
		o, p := h.q.origin, h.q.host
		strangers = h.q.share == &o.public && h.party == &o.fabric && !h.partyAdmitted
		named = p != nil && p.name.host == testHostNQN && h.q.share == &p.data && h.party == &p.fabric && h.partyAdmitted
		for n := range h.q.worker.parties {
			parties = append(parties, n)
		}
	})
	return strangers, named, parties
}

// TestImpostorHasNoShare: a connection under the name of a host with a key uses the buffers and the room for data
// of unknown hosts, and none of the host's, until it has authenticated, on each queue.
func TestImpostorHasNoShare(t *testing.T) {
	k := newKeyed(t)
	for _, qid := range []capsule.QID{0, 1} {
		cntlid := capsule.ControllerIDDynamic
		if qid == 1 {
			_, cntlid = k.admin()
		}
		impostor, _ := k.connect(qid, cntlid)
		impostor.wantStatus(capsule.StatusAuthenticationRequired|capsule.StatusDNR,
			adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: capsule.CNSController}, make([]byte, 4096)))
		strangers, _, parties := impostor.shares()
		if !strangers {
			t.Errorf("queue %d: without authentication it has more than strangers have", qid)
		}
		for _, p := range parties {
			if p.host != "" {
				t.Errorf("queue %d: the host has a share, of which nobody has proved to be it", qid)
			}
		}
		impostor.lose()

		host, _ := k.connect(qid, cntlid)
		x := k.exchange()
		if host.authenticate(x); x.State() != auth.StateDone {
			t.Fatalf("queue %d: %v", qid, x.Err())
		}
		if strangers, named, _ := host.shares(); strangers || !named {
			t.Errorf("queue %d: the host has authenticated, and has no share of its own", qid)
		}
		host.lose()
	}
}

// TestPartiesOfANetwork: one IPv6 network is one party, whatever addresses it uses.
func TestPartiesOfANetwork(t *testing.T) {
	f := newFixture(t)
	var all []*hostQueue
	for i := range 20 {
		w := f.at.device.workers[0]
		h := &hostQueue{t: t, active: map[int]*hostCommand{}, closed: make(chan struct{})}
		h.q = f.target.newQueue(w, f.at, 0, 32)
		h.q.wire, h.q.onClosed = h, func() { close(h.closed) }
		h.q.remote = netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1::%x", i+1)), 50000)
		h.call(func() { h.q.start(2) })
		all = append(all, h)
	}
	all[0].call(func() {
		if n := len(all[0].q.worker.parties); n != 1 {
			t.Errorf("%d parties", n)
		}
	})
	for _, h := range all {
		h.call(func() { h.q.leaveParties() })
	}
	all[0].call(func() {
		if n := len(all[0].q.worker.parties); n != 0 {
			t.Errorf("%d parties are left", n)
		}
		for _, h := range all {
			h.q.shard.StopTimer(&h.q.timer)
		}
	})
}
