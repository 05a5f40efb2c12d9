package fabric

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// heapInUse returns how many bytes of the heap are reachable.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // also what cleanups have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestFootprint compares what a queue is said to take with what it does take, with a host that has used lists of
// descriptors.
func TestFootprint(t *testing.T) {
	const queues, receives = 8, 64
	for _, depth := range []int{32, 129} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d entries, shared %v", depth, shared), func(t *testing.T) {
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				d, err := softroce.Open(softroce.Config{Addr: targetAddr, Network: softroce.NewNetwork(1)})
				must(err)
				cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
				must(err)
				s, err := shard.New(shard.Config{CQ: cq, Arena: 1 << 20})
				must(err)
				defer s.Close()
				domain, err := d.NewDomain()
				must(err)
				cfg := TargetConfig{
					Shard: s, Domain: domain, Attrs: d.Attrs(), Handler: &store{}, Depth: depth, InCapsule: 4096, MaxDescriptors: 16, MaxPieces: 2,
				}
				if shared {
					common := SharedConfig{Shard: s, Domain: domain, Receives: receives, InCapsule: 4096}
					before := heapInUse()
					cfg.Shared, err = NewSharedReceives(common)
					must(err)
					must(cfg.Shared.Open())
					wantFootprint(t, "the shared receives", common.Footprint(), heapInUse()-before+common.Memory())
				}
				before := heapInUse()
				var qs []*TargetQueue
				for range queues {
					q, err := NewTarget(cfg)
					must(err)
					for i := range q.commands {
						q.commands[i].data.remotes = make([]remote, cfg.MaxDescriptors)
					}
					cfg.Shard.Attach(&q.slot, (*targetConsumer)(q))
					q.qp, err = domain.NewQueuePair(q.pairConfig())
					must(err)
					q.reads.init(q, cfg.Attrs.MaxReadsOut)
					qs = append(qs, q)
				}
				wantFootprint(t, "a queue", cfg.Footprint(0), (heapInUse()-before)/queues+cfg.Memory())
				for _, q := range qs {
					must(q.qp.Close())
					must(q.Free())
				}
			})
		}
	}
}

// wantFootprint allows for the rounding of sizes, and for rings that grow in powers of two.
func wantFootprint(t *testing.T, what string, said, is int) {
	t.Helper()
	t.Logf("%s: said to take %d bytes, takes %d", what, said, is)
	if is > said+said/50 || is < said*3/4 {
		t.Errorf("%s takes %d bytes, and is said to take %d", what, is, said)
	}
}
