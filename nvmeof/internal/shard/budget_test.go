package shard

import (
	"net/netip"
	"testing"
	"time"
)

// TestReclaim: what a consumer took and its peer has not delivered in time is asked back once
// a claim for another peer waits, and not for one of its own.
func TestReclaim(t *testing.T) {
	for _, c := range []struct {
		name  string
		other byte // last byte of the other consumer's peer; the holder's is 1
		want  bool
	}{{"another peer waits", 2, true}, {"the peer's own", 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := &Shard{cq: newFakeCQ()}
			s.budget.open(s, 100)
			var rs [2]recorder
			var claims [2]Claim
			for i := range rs {
				rs[i].retry = func() {}
				s.Attach(&rs[i].slot, &rs[i])
				claims[i].Peer = netip.AddrFrom4([4]byte{192, 0, 2, []byte{1, c.other}[i]})
			}
			asked := int64(0)
			claims[0].Reclaim = func(b *Budget, before int64) {
				asked = before
				b.Give(100)
			}
			b := &s.budget
			if b.Take(&claims[0], &rs[0].slot, 100, 100) != 100 {
				t.Fatal("nothing granted")
			}
			s.Lend(&claims[0])
			if b.Take(&claims[1], &rs[1].slot, 50, 50) != 0 || !b.urging.Running() {
				t.Fatal("granted beyond the limit, or nobody is going to ask")
			}
			s.now = int64(time.Second)
			b.reclaim()
			if got := asked == int64(time.Second-deliveryTimeout); got != c.want {
				t.Errorf("asked for what was taken before %d", asked)
			}
			if got := b.Take(&claims[1], &rs[1].slot, 50, 50) == 50; got != c.want {
				t.Errorf("granted afterwards: %v", got)
			}
		})
	}
}
