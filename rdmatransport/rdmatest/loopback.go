package rdmatest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Loopback joins devices in one process without any packets: the shortest
// provider that keeps the contract of package rdmatransport, for tests of what
// is built on it. Operations take effect in Flush and Poll of their sender, one
// lock guards all of it, and completion queues block on channels, so that it
// works with the clock of testing/synctest.
type Loopback struct {
	mu        sync.Mutex
	devices   map[netip.Addr]*device
	listeners map[netip.AddrPort]*listener
	lastKey   uint32
	lastPort  uint16
	lastQPN   rdmatransport.QPN
}

// NewLoopback returns a network without devices.
func NewLoopback() *Loopback {
	return &Loopback{
		devices:   map[netip.Addr]*device{},
		listeners: map[netip.AddrPort]*listener{},
		lastPort:  30000, lastQPN: 16,
	}
}

// Attrs are those of a device that does everything.
func Attrs() rdmatransport.Attrs {
	return rdmatransport.Attrs{
		Provider: "loopback", Name: "loopback",
		MaxQueueDepth: 4096, MaxShared: 4096, MaxSGE: 8, MaxInline: 256, MaxMessage: 1 << 30,
		MaxReadsOut: 16, MaxReadsIn: 16, Shards: 8,
		Windows: true, Atomics: true, Immediate: true,
	}
}

// Open adds a device at an address.
func (n *Loopback) Open(addr netip.Addr, attrs rdmatransport.Attrs) (rdmatransport.Device, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.devices[addr] != nil {
		return nil, fmt.Errorf("loopback: address %v is taken", addr)
	}
	d := &device{net: n, addr: addr, attrs: attrs, start: time.Now()}
	n.devices[addr] = d
	return d, nil
}

type device struct {
	net   *Loopback
	addr  netip.Addr
	attrs rdmatransport.Attrs
	start time.Time

	// ReceiveBudget is what completion queues report.
	budget int

	queues int
	qps    []*queuePair
	closed bool
}

// SetReceiveBudget makes a loopback device's completion queues report a budget
// of n bytes.
func SetReceiveBudget(d rdmatransport.Device, n int) { d.(*device).budget = n }

func (d *device) Attrs() rdmatransport.Attrs { return d.attrs }

func (d *device) NewCompletionQueue(rdmatransport.CQConfig) (rdmatransport.CompletionQueue, error) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.closed {
		return nil, rdmatransport.ErrClosed
	}
	if d.queues == d.attrs.Shards {
		return nil, errors.New("loopback: no more completion queues")
	}
	d.queues++
	return &completionQueue{device: d, wake: make(chan struct{}, 1)}, nil
}

func (d *device) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	n := d.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.closed {
		return nil, rdmatransport.ErrClosed
	}
	if at.Addr() != d.addr {
		return nil, fmt.Errorf("loopback: %v is not the device's address", at.Addr())
	}
	if at.Port() == 0 {
		n.lastPort++
		at = netip.AddrPortFrom(at.Addr(), n.lastPort)
	}
	if n.listeners[at] != nil {
		return nil, fmt.Errorf("loopback: %v is in use", at)
	}
	l := &listener{net: n, addr: at, arrived: make(chan *request, 64), closed: make(chan struct{})}
	n.listeners[at] = l
	return l, nil
}

func (d *device) Close() error {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	delete(d.net.devices, d.addr)
	for _, q := range d.qps {
		q.end(rdmatransport.ErrDisconnected)
	}
	return nil
}
