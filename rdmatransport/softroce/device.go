package softroce

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	maxDepth   = 8192
	maxSGE     = rc.MaxPieces
	maxReads   = 128
	maxWindows = 4096
)

// Config describes a device. A zero field takes the default.
type Config struct {
	Addr   netip.Addr // required: the device's IP address
	Shards int        // completion queues, each with its own sockets; default 1, limit 64

	ReceiveBuffer int // bytes of each receive socket's buffer; default 8 MiB or what the system allows
	PathMTU       int // upper bound of the path MTU: 256 to 4096; default: what the route allows

	// AckTimeout is how long a peer may be silent before a retry is counted. Multiplied by the retry count plus
	// one, it is how long until the connection fails. Retransmission itself follows measured round trips. Connection
	// requests carry the value to the peer, which may wait as long before it retransmits. Default 500 ms.
	AckTimeout time.Duration
	// ConfirmTimeout is how long a peer whose connection was accepted may take to confirm it or to send data; default
	// 10 s.
	ConfirmTimeout time.Duration

	// NoOffload sends and receives packets one by one, without GSO and GRO.
	NoOffload bool
	// NoECN sends packets as not ECN capable, for paths that mistreat ECN. Received marks are still answered, and
	// CNPs still obeyed.
	NoECN bool
	// Congestion holds the parameters of rate control; zero means the defaults.
	Congestion RateConfig

	// Moved is the state of a device that was given up by [Device.Move], here or in another process. Open continues
	// that device and duplicates its files. Addr must be its address; Shards must be its number of shards or 0.
	Moved *rdmatransport.Moved

	// Network replaces the sockets, for tests and experiments. A Moved must be of the same network.
	Network *Network
	// Random replaces crypto/rand, for reproducible tests.
	Random func([]byte)
}

// Device implements rdmatransport.Device.
type Device struct {
	cfg    Config
	addr   netip.Addr
	group  udp.Group
	start  time.Time
	node   rdmatransport.NUMANode
	shards []*shard

	refused refusedRequests

	ended chan struct{} // closed once shards no longer run what is in their mailboxes

	mu      sync.Mutex // guards the fields below
	taken   int        // number of shards handed out as completion queues, starting with the first
	free    []*shard   // shards among those whose completion queue is closed
	closed  bool
	waits   bool     // opened from a Moved, and Begin has not been called yet
	moved   bool     // given up; the group is closed with the device
	capture *capture // the open capture, or nil
	last    []Stats  // set when ended is closed
}

// Open takes ownership of an IP address and returns its device. It fails with an [*InUseError] if the address is in
// use by another device, and also if the kernel's rdma_rxe holds UDP port 4791 there.
func Open(cfg Config) (*Device, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("softroce: %w", err)
	}
	if cfg.AckTimeout == 0 {
		cfg.AckTimeout = 500 * time.Millisecond
	}
	d := &Device{cfg: cfg, addr: cfg.Addr.Unmap(), start: time.Now(), ended: make(chan struct{})}
	var err error
	if cfg.Moved != nil {
		err = d.continueMoved()
	} else {
		err = d.openNew()
	}
	if err != nil {
		return nil, fmt.Errorf("softroce: %w", err)
	}
	return d, nil
}

// check returns an error if a value is outside its range.
func (c *Config) check() error {
	switch {
	case !c.Addr.IsValid():
		return errors.New("Config.Addr is missing: want an address of this machine")
	case c.PathMTU != 0 && (c.PathMTU < 256 || c.PathMTU > 4096):
		return fmt.Errorf("Config.PathMTU is %d: want 256 to 4096, or 0 for the path MTU of the route", c.PathMTU)
	case c.ReceiveBuffer < 0:
		return fmt.Errorf("Config.ReceiveBuffer is %d: want at least 0", c.ReceiveBuffer)
	case c.AckTimeout < 0:
		return fmt.Errorf("Config.AckTimeout is %v: want at least 0", c.AckTimeout)
	case c.ConfirmTimeout < 0:
		return fmt.Errorf("Config.ConfirmTimeout is %v: want at least 0", c.ConfirmTimeout)
	}
	return nil
}

func (d *Device) openNew() (err error) {
	if d.cfg.Shards == 0 {
		d.cfg.Shards = 1
	}
	if d.cfg.Shards < 0 || d.cfg.Shards > 64 {
		return fmt.Errorf("%d shards, want 1 to 64", d.cfg.Shards)
	}
	if d.cfg.Network != nil {
		d.group, err = udp.Join(d.cfg.Network, d.addr, d.cfg.Shards)
	} else {
		d.group, err = udp.Listen(d.addr, d.sockets())
	}
	if err != nil {
		return err
	}
	d.makeShards()
	d.shards[0].manager = newManager(d.shards[0])
	return nil
}

// sockets returns the configuration of the sockets.
func (d *Device) sockets() udp.Config {
	c := &d.cfg
	return udp.Config{Shards: c.Shards, ReceiveBuffer: c.ReceiveBuffer, NoGSO: c.NoOffload, NoGRO: c.NoOffload}
}

func (d *Device) makeShards() {
	d.node = d.group.Node()
	for i, port := range d.group.Ports() {
		d.shards = append(d.shards, newShard(d, i, port))
	}
}

// pathMTU returns the largest RoCE path MTU towards an address, in bytes of payload: 256 to 4096. It leaves 96 bytes
// of the route's MTU for headers, as Linux does.
func (d *Device) pathMTU(to netip.Addr) int {
	n, err := d.group.MTU(to)
	if err != nil {
		n = 1500 // no route yet: assume the MTU of Ethernet
	}
	n -= 96
	if d.cfg.PathMTU > 0 {
		n = min(n, d.cfg.PathMTU)
	}
	return max(256, min(4096, wire.MTUFor(n).Bytes()))
}

// clock returns the monotonic time since the device was opened.
func (d *Device) clock() time.Duration { return time.Since(d.start) }

func (d *Device) seed() (s [32]byte) {
	if d.cfg.Random != nil {
		d.cfg.Random(s[:])
	} else {
		rand.Read(s[:])
	}
	return s
}

// random returns random bits for the control plane; shards have generators of their own.
func (d *Device) random() uint32 {
	s := d.seed()
	return binary.LittleEndian.Uint32(s[:])
}

// Warnings describes what the system did not grant and what the administrator can do about it.
func (d *Device) Warnings() []string { return d.group.Warnings() }

// Addr returns the device's address.
func (d *Device) Addr() netip.Addr { return d.addr }

// Attrs implements rdmatransport.Device.
func (d *Device) Attrs() rdmatransport.Attrs {
	return rdmatransport.Attrs{
		Provider: "softroce", Name: d.addr.String(),
		MaxQueueDepth: maxDepth, MaxShared: maxShared, MaxSGE: maxSGE, MaxInline: rc.MaxInline, MaxMessage: rc.MaxMessage,
		MaxReadsOut: maxReads, MaxReadsIn: maxReads, Shards: len(d.shards),
		Windows: true, Atomics: true, Immediate: true, Node: d.node,
	}
}

// NewCompletionQueue implements rdmatransport.Device.
func (d *Device) NewCompletionQueue(rdmatransport.CQConfig) (rdmatransport.CompletionQueue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, rdmatransport.ErrClosed
	}
	if len(d.free) > 0 {
		first := slices.MinFunc(d.free, func(a, b *shard) int { return a.index - b.index }) // shard 0 drives the manager
		d.free = slices.DeleteFunc(d.free, func(s *shard) bool { return s == first })
		first.left = make(chan struct{})
		return first, nil
	}
	if d.taken == len(d.shards) {
		return nil, fmt.Errorf("softroce: all %d completion queues of %v are in use: close one, or open the device with more Config.Shards", d.taken, d.addr)
	}
	s := d.shards[d.taken]
	d.taken++
	s.left = make(chan struct{})
	if d.capture != nil {
		d.capture.tap(s)
	}
	return s, nil
}

// giveBack makes a shard available again.
func (d *Device) giveBack(s *shard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.free, s) {
		d.free = append(d.free, s)
		close(s.left)
	}
}

// Close implements rdmatransport.Device. It notifies every peer, including those whose connection requests are
// unanswered, and waits for no answer. A device that waits for Begin notifies none, so that its Moved can be opened
// again.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.moved:
		d.moved = false
		return d.group.Close()
	case d.closed:
		return nil
	}
	d.closed = true
	for _, s := range d.shards {
		s.now = d.clock()
		s.end()
	}
	// Shard 0's mailbox now holds the ends that other shards have reported.
	d.shards[0].mail.Run()
	d.shards[0].manager.close()
	d.shards[0].Flush()
	d.finish()
	return d.group.Close()
}

// finish stores the last counters and releases callers that wait for a shard.
func (d *Device) finish() {
	for _, s := range d.shards {
		d.last = append(d.last, s.snapshot())
	}
	close(d.ended)
}

var _ rdmatransport.Device = (*Device)(nil)
