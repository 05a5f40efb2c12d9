package target

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Target serves subsystems on one device. Its methods may be called from any
// goroutine but a shard's.
type Target struct {
	cfg      Config
	log      *zap.Logger
	limit    logLimit // of lines that a peer can cause
	comings  logLimit // of lines about hosts that come and go, so that these hide none of those
	arrivals arrivals
	attrs    rdmatransport.Attrs
	domain   rdmatransport.Domain
	workers  []*worker
	started  time.Time
	firstID  capsule.ControllerID // see Subsystem.join
	discSub  *Subsystem

	// Dispatch tables, the same for all controllers.
	admin    [256]row
	fabrics  [256]row
	io       [256]ioRow
	fused    [2]ioRow // the halves of Compare and Write
	identify [256]identifyRow
	features [256]feature
	logs     [256]logRow

	memory  atomic.Int64 // mapped for queues
	silent  atomic.Int64 // connections without a Connect command, or that have yet to authenticate
	cancel  context.CancelFunc
	context context.Context
	tasks   sync.WaitGroup // accept loops, and queues until they are freed

	authenticator authenticator
	authCounts    authCounts
	sequence      atomic.Uint32 // of challenges

	opening sync.Mutex // held while volumes are opened and closed, which waits for shards
	volumes openVolumes

	mu         sync.Mutex
	closed     bool
	subsystems map[string]*Subsystem
	sorted     atomic.Pointer[[]*Subsystem] // the same by name, see Subsystems
	listeners  []*Listener
	queues     map[*queue]struct{}
	referrals  []Referral
	generation uint64 // counts changes of what the discovery log has for anybody
}

// A worker is one shard and what the target has on it.
type worker struct {
	index    int
	shard    *shard.Shard
	arena    rdmatransport.MemoryRegion
	arenaKey rdmatransport.LKey
	lanes    lanes
	scratch  *shard.Arena // what commands read into that the host does not see
	queues   atomic.Int64

	shared     *fabric.SharedReceives // of I/O queues; nil: each has its own
	sharedSize int64                  // bytes that shared maps
}

// New starts a target without subsystems or listeners.
func New(cfg Config) (*Target, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	t := &Target{
		limit: logLimit{perSecond: linesPerSecond}, comings: logLimit{perSecond: comingsPerSecond},
		cfg: cfg, log: cfg.Log, attrs: cfg.Device.Attrs(), started: time.Now(),
		subsystems: make(map[string]*Subsystem), queues: make(map[*queue]struct{}), generation: 1,
		volumes: make(openVolumes),
		admin:   adminTable(), fabrics: fabricsTable(), io: ioTable(), fused: fusedRows(),
		identify: identifyTable(), features: featureTable(), logs: logTable(),
	}
	t.restrict()
	t.sorted.Store(new([]*Subsystem))
	var seed [6]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	// A host that reconnects after a restart meets no identifier of before.
	t.firstID = capsule.ControllerID(binary.LittleEndian.Uint16(seed[:])) % capsule.ControllerIDMax
	t.sequence.Store(binary.LittleEndian.Uint32(seed[2:]))
	t.context, t.cancel = context.WithCancel(context.Background())
	if t.discSub, err = newSubsystem(t, SubsystemConfig{NQN: cmp.Or(cfg.DiscoveryNQN, capsule.DiscoveryNQN)}); err != nil {
		return nil, err
	}
	t.discSub.discovery = true
	if t.domain, err = cfg.Device.NewDomain(); err != nil {
		return nil, fmt.Errorf("target: protection domain: %w", err)
	}
	for i := range cfg.Shards {
		if err := t.addWorker(i); err != nil {
			return nil, errors.Join(err, t.closeWorkers())
		}
	}
	if cfg.Revalidate > 0 {
		t.tasks.Go(t.watchStores) // ends when the target closes
	}
	t.authenticator.start()
	return t, nil
}

func (t *Target) addWorker(i int) error {
	cq, err := t.cfg.Device.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		return fmt.Errorf("target: completion queue %d: %w", i, err)
	}
	s, err := shard.New(shard.Config{
		CQ: cq, Polling: t.cfg.Polling, Spin: t.cfg.Spin, Arena: t.cfg.Arena, Dedicated: true,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("target: shard %d: %w", i, err), cq.Close())
	}
	w := &worker{index: i, shard: s}
	// Hosts have no right in it: the target alone reads and writes through it.
	w.arena, err = t.domain.Register(s.Arena().Bytes(), rdmatransport.AccessLocalWrite)
	if err != nil {
		return errors.Join(fmt.Errorf("target: registering buffers of shard %d: %w", i, err), s.Close())
	}
	w.arenaKey = w.arena.LKey()
	if w.scratch, err = shard.NewArena(scratchSize); err != nil {
		return errors.Join(fmt.Errorf("target: scratch memory of shard %d: %w", i, err), w.arena.Deregister(), s.Close())
	}
	t.workers = append(t.workers, w)
	s.AddPoller(&w.lanes)
	s.Start()
	return t.shareReceives(w)
}

// shareReceives gives a worker receives that its I/O queues share, if they are to.
func (t *Target) shareReceives(w *worker) error {
	if t.cfg.SharedReceives == 0 {
		return nil
	}
	cfg := fabric.SharedConfig{Shard: w.shard, Domain: t.domain, Receives: t.cfg.SharedReceives, InCapsule: t.cfg.InCapsule}
	w.sharedSize = int64(cfg.Memory())
	if t.memory.Add(w.sharedSize) > t.cfg.QueueMemory {
		return fmt.Errorf("target: %d shared receives of each shard take more than the queue memory of %d bytes: raise QueueMemory",
			t.cfg.SharedReceives, t.cfg.QueueMemory)
	}
	var err error
	if w.shared, err = fabric.NewSharedReceives(cfg); err == nil {
		err = w.do(w.shared.Open)
	}
	if err != nil {
		return fmt.Errorf("target: shared receives of shard %d: %w", w.index, err)
	}
	return nil
}

// do calls f in the worker's shard.
func (w *worker) do(f func() error) error {
	var err error
	called := w.shard.Call(func() { err = f() })
	return errors.Join(called, err)
}

func (t *Target) closeWorkers() error {
	var errs []error
	for _, w := range t.workers {
		if w.shared != nil {
			errs = append(errs, w.do(w.shared.Close), w.shared.Free())
			t.memory.Add(-w.sharedSize)
		}
		errs = append(errs, w.arena.Deregister(), w.shard.Close(), w.scratch.Close())
	}
	return errors.Join(append(errs, t.domain.Close())...)
}

// AddSubsystem creates a subsystem, which no host may use yet.
func (t *Target) AddSubsystem(c SubsystemConfig) (*Subsystem, error) {
	s, err := newSubsystem(t, c)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subsystems[c.NQN] != nil || c.NQN == capsule.DiscoveryNQN || c.NQN == t.discSub.nqn {
		return nil, fmt.Errorf("subsystem %s exists already", c.NQN)
	}
	t.reshapeLocked([]*Subsystem{s}, func() {
		t.subsystems[c.NQN] = s
		t.enlist(s)
	})
	return s, nil
}

// subsystem finds a subsystem by the name that a host sent, or returns nil.
func (t *Target) subsystem(nqn *capsule.NQNField) *Subsystem {
	if nqn.Is(capsule.DiscoveryNQN) || nqn.Is(t.discSub.nqn) {
		return t.discSub
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subsystems[nqn.String()]
}

// Close ends all connections, waits until nothing of them is in flight, and
// stops the shards. Stores stay open.
func (t *Target) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	listeners := t.listeners
	t.mu.Unlock()

	t.cancel()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.listener.Close())
	}
	t.dropQueues(func(*queue) bool { return true }, "target is shutting down")
	t.tasks.Wait()
	t.authenticator.stop()
	for _, s := range t.Subsystems() {
		errs = append(errs, s.removeNamespaces())
	}
	return errors.Join(append(errs, t.closeWorkers())...)
}
