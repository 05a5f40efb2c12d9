package fabric

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// newShared opens n receives at the target's end.
func (r *rig) newShared(n int) *SharedReceives {
	r.t.Helper()
	s, err := NewSharedReceives(SharedConfig{Shard: r.target.shard, Domain: r.target.domain, Receives: n, InCapsule: 4096})
	if err == nil {
		err = s.Open()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// close requires that all receives are given back and unused.
func (s *SharedReceives) close(r *rig) {
	r.t.Helper()
	r.settle()
	if s.posted != s.cfg.Receives || len(s.takers) != 0 {
		r.t.Errorf("%d of %d receives are posted, %d queues take them, want all and none", s.posted, s.cfg.Receives, len(s.takers))
	}
	if err := errors.Join(s.Close(), s.Free()); err != nil {
		r.t.Error(err)
	}
}

// TestSharedReceives: two queues alternate, with fewer receives than they have entries; the end of one does not affect
// the other.
func TestSharedReceives(t *testing.T) {
	r := newRig(t, 0)
	shared := r.newShared(8)
	tc, hc := TargetConfig{InCapsule: 4096, Shared: shared}, HostConfig{InCapsule: 4096}
	var stores [2]*store
	var hosts [2]*HostQueue
	for i := range stores {
		stores[i] = r.newStore(1 << 20)
		hosts[i] = r.queues(stores[i], tc, hc)
	}
	own := tc
	own.Shared, own.Depth = nil, 16
	if shares := stores[0].queue.cfg.Memory(); shares*10 > own.Memory() {
		t.Errorf("a queue takes %d bytes with shared receives, %d with its own", shares, own.Memory())
	}
	m := r.hostMemory(1<<20, false)
	exchange := func(i int) {
		t.Helper()
		fill(m.Bytes()[:64<<10], i)
		var writes []*Request
		for n := range 15 { // in capsules
			writes = append(writes, transfer(capsule.IOWrite, m, n*4096, 4096, uint32(n*4096)))
		}
		r.run(hosts[i], writes...)
		if !bytes.Equal(stores[i].mem[:15*4096], m.Bytes()[:15*4096]) {
			t.Errorf("queue %d: writes left something else", i)
		}
	}
	for round := range 6 {
		exchange(round % 2)
	}
	stores[0].queue.Disconnect()
	r.until("the end of a queue", func() bool { return stores[0].closed == 1 })
	exchange(1)
	hosts[1].Disconnect()
	r.until("the end of a queue whose host has gone", func() bool { return stores[1].closed == 1 })
	shared.close(r)
}

// TestSharedReceivesAreBounded: a host that sends more commands than its queue has entries loses that queue, and its
// receives are given back (row 63).
func TestSharedReceivesAreBounded(t *testing.T) {
	r := newRig(t, 0)
	shared := r.newShared(64)
	bad, good := r.newStore(1<<20), r.newStore(1<<20)
	h := r.queues(good, TargetConfig{InCapsule: 4096, Shared: shared}, HostConfig{InCapsule: 4096})
	bad.hold = true
	g := r.hostileHost(bad, TargetConfig{InCapsule: 4096, Shared: shared, Depth: 16})
	for i := range 17 {
		c := command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
		c.CID = capsule.CID(i)
		g.send(encode(c))
		r.settle()
	}
	r.until("the end of a queue that takes too much", func() bool { return bad.failed != nil })
	if !errors.Is(bad.failed, ErrProtocol) || len(bad.held) != 16 {
		t.Errorf("ended with %v after %d commands, want %v after 16", bad.failed, len(bad.held), ErrProtocol)
	}
	m := r.hostMemory(4096, false)
	r.run(h, transfer(capsule.IOWrite, m, 0, 4096, 0))
	for _, c := range bad.held {
		c.Respond(capsule.StatusSuccess, 0)
	}
	r.until("commands are back", func() bool { return bad.closed == 1 })
	good.queue.Disconnect()
	r.until("the end of the other queue", func() bool { return good.closed == 1 })
	shared.close(r)
}
