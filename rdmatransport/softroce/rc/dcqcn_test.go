package rc

import (
	"fmt"
	"testing"
	"time"
)

const gigabit = 1e9 / 8

func marking(rate float64) link {
	return link{rate: rate, limit: 2000, kmin: 40 << 10, kmax: 160 << 10, pmax: 0.1}
}

// TestIncastMarked: many senders, one bottleneck that marks.
func TestIncastMarked(t *testing.T) {
	for _, speed := range []float64{10, 25, 1} {
		for _, reads := range []bool{false, true} {
			for _, n := range []int{2, 8, 32} {
				for _, mtu := range []int{1024, 4096} {
					t.Run(fmt.Sprintf("%v %v %d %d", speed, reads, n, mtu), func(t *testing.T) {
						s := newIncast(t, incastConfig{flows: n, reads: reads, mtu: mtu, link: marking(speed * gigabit), delay: 20 * time.Microsecond, seed: 1})
						r := s.measure(50*time.Millisecond, 200*time.Millisecond)
						t.Logf("utilisation %.3f goodput %.3f, Jain %.3f, queue %d packets, %d drops, %d marks, %d reductions, %d cnps", r.utilisation, r.goodput, r.jain, r.queue, r.drops, r.marks, r.reductions, r.cnps)
					})
				}
			}
		}
	}
}

func TestIncastDropping(t *testing.T) {
	for _, speed := range []float64{10, 1} {
		for _, reads := range []bool{false, true} {
			for _, n := range []int{1, 2, 8} {
				for _, mtu := range []int{1024, 4096} {
					t.Run(fmt.Sprintf("%v %v %d %d", speed, reads, n, mtu), func(t *testing.T) {
						s := newIncast(t, incastConfig{flows: n, reads: reads, mtu: mtu, link: link{rate: speed * gigabit, limit: 10}, delay: 20 * time.Microsecond, seed: 1})
						r := s.measure(50*time.Millisecond, 200*time.Millisecond)
						t.Logf("utilisation %.3f goodput %.3f, Jain %.3f, queue %d packets, %d drops, %d marks, %d reductions, %d cnps", r.utilisation, r.goodput, r.jain, r.queue, r.drops, r.marks, r.reductions, r.cnps)
					})
				}
			}
		}
	}
}
