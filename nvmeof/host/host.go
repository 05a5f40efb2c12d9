package host

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Host connects to controllers over one device. Its methods may be called from any goroutine.
type Host struct {
	device   rdmatransport.Device
	attrs    rdmatransport.Attrs
	identity nvmeof.HostIdentity
	shards   []*shard.Shard
	shares   []sharing       // by shard
	life     context.Context // canceled by Close
	end      context.CancelFunc

	connecting sync.WaitGroup
	sequence   atomic.Uint32 // of authentication challenges; see nextSequence

	mu          sync.Mutex // guards the fields below
	controllers map[*Controller]struct{}
	next        int // shard of the next admin queue
	closed      bool
}

// errHostClosed is the error of a closed Host.
var errHostClosed = fmt.Errorf("host is closed: %w", ErrClosed)

// New returns a host and starts its event loops.
func New(cfg Config) (*Host, error) {
	if cfg.Device == nil {
		return nil, errors.New("host: Config.Device is missing")
	}
	h := &Host{
		device: cfg.Device, attrs: cfg.Device.Attrs(), identity: cfg.Identity,
		controllers: map[*Controller]struct{}{},
	}
	if h.identity == (nvmeof.HostIdentity{}) {
		var err error
		if h.identity, err = nvmeof.NewHostIdentity(); err != nil {
			return nil, err
		}
	}
	var seed [4]byte
	rand.Read(seed[:]) // it never fails
	h.sequence.Store(binary.LittleEndian.Uint32(seed[:]))
	h.life, h.end = context.WithCancel(context.Background())
	n := cfg.shards()
	if n < 1 || n > h.attrs.Shards {
		return nil, fmt.Errorf("host: %d shards: the device supports 1 to %d", n, h.attrs.Shards)
	}
	h.shares = make([]sharing, n)
	for range n {
		if err := h.addShard(&cfg); err != nil {
			return nil, errors.Join(err, h.closeShards())
		}
	}
	return h, nil
}

func (h *Host) addShard(cfg *Config) error {
	cq, err := h.device.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		return fmt.Errorf("host: completion queue: %w", err)
	}
	// Each controller registers its own buffers, so that the keys of one are not valid for another.
	s, err := shard.New(shard.Config{CQ: cq, Polling: cfg.Polling, Spin: cfg.Spin, Arena: 1})
	if err != nil {
		return errors.Join(err, cq.Close())
	}
	h.shards = append(h.shards, s)
	s.Start()
	return nil
}

func (h *Host) closeShards() error {
	var errs []error
	for _, s := range h.shards {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Identity returns how the host identifies itself to controllers.
func (h *Host) Identity() nvmeof.HostIdentity { return h.identity }

// Node returns the NUMA node of the host's device, if the system reports one.
func (h *Host) Node() rdmatransport.NUMANode { return h.attrs.Node }

// Shards returns the number of event loops.
func (h *Host) Shards() int { return len(h.shards) }

// Close disconnects all controllers and ends the event loops.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.mu.Unlock()
	h.end()
	h.connecting.Wait()
	h.mu.Lock()
	var all []*Controller
	for c := range h.controllers {
		all = append(all, c)
	}
	h.mu.Unlock()
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Disconnect(context.Background()))
	}
	return errors.Join(append(errs, h.closeShards())...)
}

// enter begins a Connect. The returned context ends with ctx or when the host closes. shardIndex is the shard of the
// admin queue. leave must be called at the end.
func (h *Host) enter(ctx context.Context) (_ context.Context, shardIndex int, leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, 0, nil, errHostClosed
	}
	ctx, cancel := context.WithCancel(ctx) // panics if ctx is nil: before connecting.Add, or Close would wait for ever
	h.connecting.Add(1)
	h.next++
	stop := context.AfterFunc(h.life, cancel) // stopped by leave at the latest
	return ctx, (h.next - 1) % len(h.shards), func() {
		stop()
		cancel()
		h.connecting.Done()
	}, nil
}

// register records a connected controller.
func (h *Host) register(c *Controller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.controllers[c] = struct{}{}
}

func (h *Host) forget(c *Controller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.controllers, c)
}
