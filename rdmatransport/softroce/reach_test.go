package softroce

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestDeregisterWaits: a peer may read memory whose owner deregisters the key meanwhile, without causing a fault.
// Deregister returns after the packets in progress have been sent; then the memory may be unmapped.
func TestDeregisterWaits(t *testing.T) {
	n := NewNetwork(1)
	a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n})
	b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: n})
	connect(t, a, b)
	mr, err := b.dom.Register(make([]byte, 4096), rdmatransport.AccessRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	sending, send := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.SetFaults(func(from, _ netip.Addr) Faults { // called during the send
		if from == b.dev.Addr() {
			once.Do(func() { close(sending) })
			<-send
		}
		return Faults{}
	})
	a.do(func() {
		err = a.qp.PostSend([]rdmatransport.SendWR{{ID: 7, Op: rdmatransport.OpRead, SGL: a.sge(8192, 4096),
			RemoteAddr: mr.IOVA(), RKey: mr.RKey(), Flags: rdmatransport.FlagSignaled}})
	})
	if err != nil {
		t.Fatal(err)
	}
	<-sending
	gone := make(chan error, 1)
	go func() { gone <- mr.Deregister() }()
	select {
	case <-gone:
		t.Error("deregistered while an answer to a READ of the memory is being sent")
	case <-time.After(20 * time.Millisecond):
	}
	close(send)
	if t.Failed() {
		return
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
	if got := a.want(t, 1)[0]; got.ID != 7 || got.Status != rdmatransport.StatusSuccess {
		t.Errorf("the READ ended as %+v", got)
	}
	b.do(func() { err = b.mr.Deregister() }) // called by the owner of the completion queue
	if err != nil {
		t.Error(err)
	}
	for _, e := range []*end{a, b} {
		e.do(func() { e.qp.Close() })
		e.close()
		if err := e.dev.Close(); err != nil {
			t.Error(err)
		}
	}
}
