package rc

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestStoreIsShared: queue pairs of a peer that sends what cannot be executed yet, and never
// what is missing, leave to another as much as each of them has, and all that it can use when
// they have done so for a while.
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
		r := &reorder{store: s, requests: true}
		keep(r, 0)
		hogs = append(hogs, r)
	}
	if s.Lent() != s.Limit {
		t.Fatalf("%d packets are kept, want %d", s.Lent(), s.Limit)
	}
	honest := &reorder{store: s, requests: true}
	if n, want := keep(honest, time.Millisecond), s.Limit/len(hogs); n < want/2 {
		t.Errorf("another keeps %d packets beside %d queue pairs, want %d", n, len(hogs), want)
	}
	honest.clear()
	if n := keep(honest, 2*idleGap); n != maxHeldPerQP {
		t.Errorf("another keeps %d packets after a while, want %d", n, maxHeldPerQP)
	}
	responses := &reorder{store: s}
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
	if s.Lent() != 0 || len(s.holders) != 0 {
		t.Errorf("%d packets of %d queue pairs are kept at the end", s.Lent(), len(s.holders))
	}
}
