package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// fakeDevice is a device without a network: its completion queues only keep time, so that shards run, and tests
// provide connection requests to its listeners.
type fakeDevice struct {
	listener *fakeListener
	pins     bool // Attrs.Pins
	regions  int
	mu       sync.Mutex
}

func newFakeDevice() *fakeDevice {
	return &fakeDevice{listener: &fakeListener{requests: make(chan rdmatransport.ConnRequest), closed: make(chan struct{}), lost: make(chan struct{})}}
}

func (d *fakeDevice) Attrs() rdmatransport.Attrs {
	return rdmatransport.Attrs{
		Provider: "fake", MaxQueueDepth: 4096, MaxSGE: 4, MaxMessage: 1 << 31,
		MaxReadsOut: 16, MaxReadsIn: 16, Shards: 4, Pins: d.pins,
	}
}

func (d *fakeDevice) NewCompletionQueue(rdmatransport.CQConfig) (rdmatransport.CompletionQueue, error) {
	return &fakeCQ{start: time.Now(), wake: make(chan struct{}, 1)}, nil
}

func (d *fakeDevice) NewDomain() (rdmatransport.Domain, error) { return fakeDomain{d}, nil }

func (d *fakeDevice) Listen(a netip.AddrPort) (rdmatransport.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.listener
	if l.addr.IsValid() { // the first is in use
		l = &fakeListener{requests: make(chan rdmatransport.ConnRequest), closed: make(chan struct{})}
	}
	l.addr = a
	return l, nil
}

func (d *fakeDevice) Connect(context.Context, rdmatransport.QueuePair, netip.AddrPort, rdmatransport.ConnParams) (rdmatransport.ConnReply, error) {
	return rdmatransport.ConnReply{}, errors.New("fake device does not connect")
}

func (d *fakeDevice) Close() error { return nil }

func (d *fakeDevice) registered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.regions
}

type fakeDomain struct{ d *fakeDevice }

func (f fakeDomain) Register(b []byte, _ rdmatransport.Access) (rdmatransport.MemoryRegion, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.regions++
	return fakeRegion{f.d, b}, nil
}

func (f fakeDomain) NewQueuePair(rdmatransport.QPConfig) (rdmatransport.QueuePair, error) {
	return nil, errors.New("fake device has no queue pairs")
}

func (f fakeDomain) NewSharedReceiveQueue(rdmatransport.SRQConfig) (rdmatransport.SharedReceiveQueue, error) {
	return nil, errors.New("fake device has no shared receive queues")
}

func (f fakeDomain) Close() error { return nil }

type fakeRegion struct {
	d *fakeDevice
	b []byte
}

func (r fakeRegion) Bytes() []byte            { return r.b }
func (r fakeRegion) LKey() rdmatransport.LKey { return 7 }
func (r fakeRegion) RKey() rdmatransport.RKey { return 7 }
func (r fakeRegion) IOVA() uint64             { return 0 }
func (r fakeRegion) Deregister() error {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.regions--
	return nil
}

// fakeCQ never has completions. Its waits end by timeout or by Wake.
type fakeCQ struct {
	start time.Time
	wake  chan struct{}
}

func (c *fakeCQ) Poll([]rdmatransport.Completion) int { return 0 }
func (c *fakeCQ) Flush()                              {}
func (c *fakeCQ) Busy() bool                          { return false }
func (c *fakeCQ) Due() int64                          { return -1 }
func (c *fakeCQ) Watch(int) error                     { return nil }
func (c *fakeCQ) Now() int64                          { return int64(time.Since(c.start)) }
func (c *fakeCQ) ReceiveBudget() int                  { return 0 }
func (c *fakeCQ) Close() error                        { return nil }

func (c *fakeCQ) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *fakeCQ) Wait(d int64) {
	var after <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(time.Duration(d))
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-c.wake:
	case <-after:
	}
}

type fakeListener struct {
	addr     netip.AddrPort
	requests chan rdmatransport.ConnRequest
	closed   chan struct{}
	lost     chan struct{} // closed when the device is lost
}

func (l *fakeListener) Accept(ctx context.Context) (rdmatransport.ConnRequest, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.closed:
		return nil, rdmatransport.ErrClosed
	case <-l.lost:
		return nil, fmt.Errorf("fake: %w", rdmatransport.ErrDeviceLost)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *fakeListener) Addr() netip.AddrPort { return l.addr }

func (l *fakeListener) Close() error {
	close(l.closed)
	return nil
}

// fakeRequest is a connection request that records the answer.
type fakeRequest struct {
	private []byte
	depth   int
	reject  chan []byte
}

func (r *fakeRequest) PrivateData() []byte        { return r.private }
func (r *fakeRequest) LocalAddr() netip.AddrPort  { return netip.MustParseAddrPort("192.0.2.1:4420") }
func (r *fakeRequest) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.2:50000") }
func (r *fakeRequest) InitiatorDepth() int        { return r.depth }
func (r *fakeRequest) ResponderResources() int    { return 0 }
func (r *fakeRequest) Accept(rdmatransport.QueuePair, rdmatransport.ConnParams) error {
	return errors.New("fake request is not accepted")
}

func (r *fakeRequest) Reject(b []byte) error {
	r.reject <- append([]byte(nil), b...)
	return nil
}
