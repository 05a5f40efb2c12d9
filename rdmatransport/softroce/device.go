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
	Addr   netip.Addr // required: the address that the device is
	Shards int        // completion queues, each with sockets of its own; default 1, limit 64

	ReceiveBuffer int // bytes of each receive socket; default 8 MiB, as far as allowed
	PathMTU       int // bound on the path MTU: 256 to 4096; default what the route carries

	// AckTimeout is how long a peer may be silent before a retry counts,
	// and times the retry count how long until the connection is given up.
	// Retransmission itself follows measured round trips. Connection requests tell the
	// peer, whose device may wait as long before it sends again. Default 500 ms.
	AckTimeout time.Duration
	// ConfirmTimeout is how long a peer whose connection was accepted may take to confirm
	// that, or to send something; default 10 s.
	ConfirmTimeout time.Duration

	// NoOffload sends and receives each packet alone, without GSO and GRO.
	NoOffload bool
	// NoECN sends packets that routers may drop but not mark, for paths that
	// mistreat ECN. Marks are answered and CNPs obeyed nevertheless.
	NoECN bool
	// Congestion holds the parameters of rate control; zero: the defaults.
	Congestion RateConfig

	// Moved is a device that another process, or this one, has given up (see [Device.Move]).
	// Open goes on with it, and duplicates its files. Addr has to be its address; Shards is
	// what it had, and has to be that or 0.
	Moved *rdmatransport.Moved

	// Network replaces the sockets, for tests and experiments. A Moved has to be of the
	// same network.
	Network *Network
	// Random replaces crypto/rand, for repeatable tests.
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

	ended chan struct{} // closed when nothing that is for a shard to do is done any more

	mu      sync.Mutex // guards what follows
	taken   int        // shards that were handed out as completion queues, the first ones
	free    []*shard   // of those, the ones whose completion queue is closed
	closed  bool
	waits   bool     // for Begin
	moved   bool     // given up; the group is closed with the device
	capture *capture // that has not ended; nil: none
	last    []Stats  // once ended is closed
}

// Open takes possession of an address. It fails if another process owns it, with an [*InUseError], or
// if the kernel's rdma_rxe holds UDP port 4791 there.
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

// check finds what no device can have.
func (c *Config) check() error {
	switch {
	case !c.Addr.IsValid():
		return errors.New("Config.Addr is missing: an address of this machine, which the device is")
	case c.PathMTU != 0 && (c.PathMTU < 256 || c.PathMTU > 4096):
		return fmt.Errorf("Config.PathMTU is %d: 256 to 4096, or 0 for what the route carries", c.PathMTU)
	case c.ReceiveBuffer < 0:
		return fmt.Errorf("Config.ReceiveBuffer is %d: at least 0", c.ReceiveBuffer)
	case c.AckTimeout < 0:
		return fmt.Errorf("Config.AckTimeout is %v: at least 0", c.AckTimeout)
	case c.ConfirmTimeout < 0:
		return fmt.Errorf("Config.ConfirmTimeout is %v: at least 0", c.ConfirmTimeout)
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

// sockets is how they are opened.
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

// pathMTU is the largest RoCE path MTU towards an address: 256 to 4096 bytes of
// payload in a packet of the route's MTU with 96 bytes of headers to spare, as
// Linux computes it.
func (d *Device) pathMTU(to netip.Addr) int {
	n, err := d.group.MTU(to)
	if err != nil {
		n = 1500 // no route yet: what every Ethernet carries
	}
	n -= 96
	if d.cfg.PathMTU > 0 {
		n = min(n, d.cfg.PathMTU)
	}
	return max(256, min(4096, wire.MTUFor(n).Bytes()))
}

// clock is the time since the device was opened, on the monotonic clock.
func (d *Device) clock() time.Duration { return time.Since(d.start) }

func (d *Device) seed() (s [32]byte) {
	if d.cfg.Random != nil {
		d.cfg.Random(s[:])
	} else {
		rand.Read(s[:])
	}
	return s
}

// random is for the control plane; shards have generators of their own.
func (d *Device) random() uint32 {
	s := d.seed()
	return binary.LittleEndian.Uint32(s[:])
}

// Warnings says in words what the system did not grant and what the
// administrator can do about it.
func (d *Device) Warnings() []string { return d.group.Warnings() }

// Addr is the device's address.
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
		first := slices.MinFunc(d.free, func(a, b *shard) int { return a.index - b.index }) // 0 drives the manager
		d.free = slices.DeleteFunc(d.free, func(s *shard) bool { return s == first })
		return first, nil
	}
	if d.taken == len(d.shards) {
		return nil, fmt.Errorf("softroce: all %d completion queues of %v are in use: close one, or open the device with more Config.Shards", d.taken, d.addr)
	}
	s := d.shards[d.taken]
	d.taken++
	if d.capture != nil {
		d.capture.tap(s)
	}
	return s, nil
}

// giveBack lets a shard be handed out again.
func (d *Device) giveBack(s *shard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.free, s) {
		d.free = append(d.free, s)
	}
}

// Stats copies each shard's counters, on the shard's own goroutine. A shard that
// nobody polls makes it wait. Once the device is closed they are the last ones.
func (d *Device) Stats() []Stats {
	copies := make(chan shardStats, len(d.shards))
	for _, s := range d.shards {
		s.do(func() { copies <- shardStats{s.index, s.snapshot()} })
	}
	out := make([]Stats, len(d.shards))
	for range d.shards {
		select {
		case c := <-copies:
			out[c.shard] = c.Stats
		case <-d.ended:
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.Clone(d.last)
		}
	}
	return out
}

// shardStats are those of a shard, by its index.
type shardStats struct {
	shard int
	Stats
}

// Close implements rdmatransport.Device: every peer is notified, also who waits for a connection, and nothing is awaited. Nobody
// is notified by a device that waits for Begin, whose Moved can be opened again.
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
	// Ends reported by other shards are in shard 0's mailbox now.
	d.shards[0].mail.Run()
	d.shards[0].manager.close()
	d.shards[0].Flush()
	d.finish()
	return d.group.Close()
}

// finish lets those go who wait for a shard.
func (d *Device) finish() {
	for _, s := range d.shards {
		d.last = append(d.last, s.snapshot())
	}
	close(d.ended)
}

var _ rdmatransport.Device = (*Device)(nil)
