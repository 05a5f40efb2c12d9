package softroce

import (
	"net/netip"
	"runtime"
	"testing"
	"weak"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestClosedQueuePairsAreFreed is the end of row 110: the memory of hundreds of queue pairs is freed when they are
// closed, however many are created later.
func TestClosedQueuePairsAreFreed(t *testing.T) {
	d, err := Open(Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: NewNetwork(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // of the test
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	domain, err := d.NewDomain()
	if err != nil {
		t.Fatal(err)
	}
	var all []weak.Pointer[queuePair]
	func() {
		var open []rdmatransport.QueuePair
		for range 300 {
			qp, err := domain.NewQueuePair(rdmatransport.QPConfig{CQ: cq})
			if err != nil {
				t.Fatal(err)
			}
			q := qp.(*queuePair)
			d.shards[0].activate(q)
			d.shards[0].blocked = append(d.shards[0].blocked, q)
			d.shards[0].last = q
			open = append(open, qp)
			all = append(all, weak.Make(q))
		}
		cq.Flush()
		for _, qp := range open {
			qp.Disconnect()
		}
		cq.Flush()
		for _, qp := range open {
			if err := qp.Close(); err != nil {
				t.Fatal(err)
			}
		}
		cq.Flush()
	}()
	runtime.GC()
	kept := 0
	for _, p := range all {
		if p.Value() != nil {
			kept++
		}
	}
	if kept > 0 {
		t.Errorf("%d of %d closed queue pairs are kept", kept, len(all))
	}
}

// TestMissteeredPackets: packets that the kernel gave to the wrong shard wait for the right one in limited number,
// are counted beyond that, and are accepted again once the shard has been polled.
func TestMissteeredPackets(t *testing.T) {
	d, err := Open(Config{Addr: netip.MustParseAddr("10.0.0.1"), Shards: 2, Network: NewNetwork(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // of the test
	wrong, right := d.shards[0], d.shards[1]
	p := wire.Packet{Opcode: wire.RCSendOnly, PKey: wire.DefaultPKey, DestQPN: 0x10001}
	b := append(wire.AppendHeaders(nil, &p), 0, 0, 0, 0)
	from := udp.Datagram{From: netip.MustParseAddrPort("10.0.0.2:50000"), ID: -1}
	cs := make([]rdmatransport.Completion, 1)
	for round := range uint64(2) {
		for range 4 * maxForeign {
			wrong.handlePacket(&from, b, 0)
		}
		if n, lost := wrong.stats.Missteered, wrong.stats.MissteeredLost; n != (round+1)*maxForeign || lost != 3*n {
			t.Errorf("round %d: %d packets were handed on and %d dropped", round, n, lost)
		}
		right.Poll(cs)
		if n := right.stats.UnknownQPN; n != (round+1)*maxForeign {
			t.Errorf("round %d: %d packets came", round, n)
		}
	}
}
