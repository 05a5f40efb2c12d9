package rc

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestStoreIsShared: queue pairs of a peer that sends packets that cannot be executed yet, and never the missing
// ones, leave another peer as much as each of them has, and after a while everything that it can use.
func TestStoreIsShared(t *testing.T) {
	s := &Store{Limit: 2048}
	keep := func(r *reorder, now time.Duration) int {
		for psn := range wire.PSN(maxHeldPerQP) {
			r.keep(now, &wire.Packet{PSN: psn + 2})
		}
		return len(r.list)
	}
	var hogs []*reorder
	for range 40 {
		r := &reorder{store: s, counters: new(Counters), requests: true}
		keep(r, 0)
		hogs = append(hogs, r)
	}
	if s.Lent() != s.Limit {
		t.Fatalf("%d packets are kept, want %d", s.Lent(), s.Limit)
	}
	honest := &reorder{store: s, counters: new(Counters), requests: true}
	if n, want := keep(honest, time.Millisecond), s.Limit/len(hogs); n < want/2 {
		t.Errorf("another keeps %d packets beside %d queue pairs, want %d", n, len(hogs), want)
	}
	honest.clear()
	if n := keep(honest, 2*idleGap); n != maxHeldPerQP {
		t.Errorf("another keeps %d packets after a while, want %d", n, maxHeldPerQP)
	}
	responses := &reorder{store: s, counters: new(Counters)}
	if n := keep(responses, 2*idleGap); n != maxHeldPerQP {
		t.Errorf("another keeps %d responses after a while, want %d", n, maxHeldPerQP)
	}
	last := wire.PSN(0)
	for h := honest.next(2*idleGap, 2); h != nil; h = honest.next(2*idleGap, last+1) {
		last = h.pkt.PSN
		s.giveBack(h)
	}
	if last != maxHeldPerQP+1 {
		t.Errorf("what was kept ends at %d", last)
	}
	for _, r := range append(hogs, responses) {
		r.clear()
	}
	if len(s.free) > maxFree {
		t.Errorf("%d buffers stay", len(s.free))
	}
	if s.Lent() != 0 || len(s.peers) != 0 {
		t.Errorf("%d packets of %d peers are kept at the end", s.Lent(), len(s.peers))
	}
}

// TestStoreIsSharedByPeers: the queue pairs of one peer together have no more than another peer with one queue pair
// can get at once; nor does that one take more.
func TestStoreIsSharedByPeers(t *testing.T) {
	s := &Store{Limit: 2048}
	var counters Counters
	new := func(peer string) *reorder {
		return &reorder{store: s, counters: &counters, requests: true, peer: netip.MustParsePrefix(peer)}
	}
	keep := func(r *reorder) int {
		for psn := range wire.PSN(maxHeldPerQP) {
			r.keep(time.Millisecond, &wire.Packet{PSN: psn + 2})
		}
		return len(r.list)
	}
	var all []*reorder
	for range 256 {
		r := new("192.0.2.1/32")
		keep(r)
		all = append(all, r)
	}
	for i := range 8 { // 2048 packets in all
		r := new(fmt.Sprintf("2001:db8:0:%x::/64", i))
		all = append(all, r)
		if n := keep(r); i < 7 && n != maxHeldPerQP {
			t.Errorf("peer %d keeps %d packets beside the queue pairs of another", i, n)
		}
	}
	if counters.StoreTaken < 7*maxHeldPerQP {
		t.Errorf("%d packets were given up", counters.StoreTaken)
	}
	before := counters.StoreTaken
	if keep(all[0]); counters.StoreTaken > before+1 {
		t.Errorf("%d packets are taken back", counters.StoreTaken-before)
	}
	r := new("192.0.2.2/32")
	all = append(all, r)
	if n := keep(r); n < 2048/10-1 {
		t.Errorf("one more peer keeps %d packets", n)
	}
	for _, r := range all {
		r.clear()
	}
	if s.Lent() != 0 || len(s.peers) != 0 {
		t.Errorf("%d packets of %d peers are kept at the end", s.Lent(), len(s.peers))
	}
}
