package softroce

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// TestClosedQueueIsEmpty: receives of a shared queue that were not polled when their completion queue was closed are
// not returned to the next owner of its shard.
func TestClosedQueueIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := moveCase{addr: "10.0.0.1", shards: 1}
		cfg, peers := c.configs(udp.NewNetwork(1))
		m := newMigrant(t, cfg, peers, func(m *migrant) { m.shared = true })
		m.exchange()
		a, b := m.peers[0], m.ends[0]
		m.do(b, func() error { return m.srqs[0].PostRecv([]rdmatransport.RecvWR{{ID: 2, SGL: b.sge(0, 4096)}}) })
		b.do(func() {
			a.do(func() {
				send := rdmatransport.SendWR{ID: 10, Op: rdmatransport.OpSend, SGL: a.sge(8192, 16)}
				if err := a.qp.PostSend([]rdmatransport.SendWR{send, send}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second) // both have arrived
			cs := make([]rdmatransport.Completion, 1)
			if n := b.cq.Poll(cs); n != 1 || b.cq.(*shard).done.Len() != 1 {
				t.Errorf("polled %d, and %d are left", n, b.cq.(*shard).done.Len())
			}
			for _, f := range []func() error{b.qp.Close, m.srqs[0].Close, b.cq.Close} {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
			next, err := m.dev.NewCompletionQueue(rdmatransport.CQConfig{})
			if err != nil {
				t.Error(err)
			} else if n := next.Poll(cs); n > 0 {
				t.Errorf("the next owner gets %+v", cs[0])
			}
		})
		a.close()
		b.close()
	})
}
