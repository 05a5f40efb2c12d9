package softroce

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// A floodedPort always returns a full batch of empty datagrams.
type floodedPort struct{ udp.Port }

func (floodedPort) Recv(b *udp.RecvBatch) (int, error) {
	for i := range b.Datagrams {
		b.Datagrams[i].Data = nil
	}
	return len(b.Datagrams), nil
}

// TestTimersUnderFlood: lost packets are retransmitted even if a socket never becomes empty, once the datagrams that
// were in its buffer have been handled.
func TestTimersUnderFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(3)
		a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n})
		b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: n})
		connect(t, a, b)
		n.SetFaults(func(netip.Addr, netip.Addr) udp.Faults { return udp.Faults{Loss: 1} })
		a.do(func() {
			s := a.dev.shards[0]
			port := s.port
			defer func() { s.port = port }()
			s.port = floodedPort{port}
			if err := a.qp.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpSend, SGL: a.sge(0, 100)}}); err != nil {
				t.Error(err)
			}
			s.Flush()
			time.Sleep(time.Second)
			var cs [1]rdmatransport.Completion
			s.full = 0
			for polls := 1; s.stats.RC.Retransmits == 0; polls++ {
				s.Poll(cs[:])
				s.Flush()
				if resent := s.stats.RC.Retransmits > 0; resent != (polls == mostFull) {
					t.Errorf("after %d full batches: is it sent again? %v", polls, resent)
					return
				}
			}
		})
		n.SetFaults(nil)
		finish(t, a, b)
	})
}
