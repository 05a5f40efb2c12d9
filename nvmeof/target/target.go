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

	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/peerlog"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Target serves subsystems on one or more devices. Its methods may be called from any goroutine except a
// shard's.
type Target struct {
	cfg      Config
	log      *peerlog.Log
	arrivals arrivals
	first    *Device              // Config.Device, or nil
	firstID  capsule.ControllerID // see Subsystem.join
	discSub  *Subsystem

	// Dispatch tables, the same for all controllers.
	admin    [256]row
	fabrics  [256]row
	io       [256]ioRow // commands of I/O queues
	fused    [2]ioRow   // the halves of Compare and Write
	identify [256]identifyRow
	features [256]feature
	logs     [256]logRow

	controllerCounts controllerCounts
	undelivered      atomic.Uint64
	slowed           atomic.Uint64

	memory  queueMemory
	waiting waiting // connections without a Connect command, or not yet authenticated
	cancel  context.CancelFunc
	context context.Context
	tasks   sync.WaitGroup // accept loops, queues until they are freed, and calls by devices

	blocking      blockingCalls
	authenticator authenticator
	authCounts    authCounts
	started       time.Time
	clock         func() time.Duration // [boottime.Now]
	slept         func() time.Duration // [boottime.Slept]
	sequence      atomic.Uint32        // of authentication challenges

	volumes      storage.Volumes
	identifiers  access.Identifiers // of hosts, and which NQN each belongs to
	causes       meter.Causes
	unsettled    unsettled
	fetchTimeout time.Duration // constant after New

	mu         sync.Mutex
	closed     bool
	subsystems map[nvmeof.NQN]*Subsystem
	sorted     subsystemList // the same by name, see Subsystems
	devices    []*Device
	listeners  []*Listener
	queues     map[*queue]struct{}
	late       lateHosts
	referrals  []Referral
	peers      []Peer          // by port; see Gateway.SetPeers
	generation uint64          // number of changes of any host's discovery log
	changing   int             // number of [Target.Change] calls under way
	shown      *discoveryInput // the discovery log during them; otherwise nil
	shownLogs  shownLogs
	trace      *Trace      // the one that has not ended, or nil
	mover      *Mover      // the one that has not resumed, or nil
	moved      atomic.Bool // another Target or process serves the hosts now; this one has to be closed
}

// New starts a target without subsystems or listeners, on Config.Device if it is set.
func New(cfg Config) (*Target, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	t := &Target{
		cfg: cfg, log: peerlog.New(cfg.Log), fetchTimeout: fetchTimeout, started: time.Now(), clock: boottime.Now, slept: boottime.Slept,
		subsystems: make(map[nvmeof.NQN]*Subsystem), queues: make(map[*queue]struct{}), generation: 1,
		admin: adminTable(), fabrics: fabricsTable(), io: ioTable(), fused: fusedRows(),
		shownLogs: shownLogs{version: 1}, identify: identifyTable(), features: featureTable(), logs: logTable(),
	}
	t.log.Events = cfg.Events
	if cfg.Gateway != nil {
		if err := cfg.Gateway.bind(t); err != nil {
			return nil, err
		}
	}
	t.waiting.init(cfg.MaxSilent, cfg.QueueMemory)
	t.memory.init(cfg.QueueMemory)
	t.volumes.Init(cfg.BackendDepth, t.log)
	t.sorted.Store(new([]*Subsystem))
	var seed [6]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	// A random start: a host that reconnects after a restart does not find its old identifiers in use.
	t.firstID = capsule.ControllerID(binary.LittleEndian.Uint16(seed[:])) % capsule.ControllerIDMax
	t.sequence.Store(binary.LittleEndian.Uint32(seed[2:]))
	t.context, t.cancel = context.WithCancel(context.Background())
	if t.discSub, err = newSubsystem(t, SubsystemConfig{NQN: cmp.Or(cfg.DiscoveryNQN, capsule.DiscoveryNQN)}); err != nil {
		return nil, err
	}
	t.discSub.discovery = true
	if cfg.Device != nil {
		if t.first, err = t.AddDevice(cfg.Device); err != nil {
			return nil, err
		}
	}
	if cfg.Revalidate > 0 {
		t.tasks.Go(t.watchStores) // ends when the target closes
		t.tasks.Go(t.saveStates)  // likewise
	}
	t.authenticator.start(cfg.Shards)
	return t, nil
}

// AddSubsystem creates a subsystem that allows no host yet.
func (t *Target) AddSubsystem(c SubsystemConfig) (*Subsystem, error) {
	s, err := newSubsystem(t, c)
	if err != nil {
		return nil, err
	}
	if err := s.beginLife(c.State, c.AwaitState); err != nil {
		return nil, fmt.Errorf("subsystem %s: %w", c.NQN, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed: // otherwise nothing would release the state store
		return nil, errors.Join(fmt.Errorf("subsystem %s: the target is %w", c.NQN, rdmatransport.ErrClosed), s.endLife(!s.life.inherits))
	case t.subsystems[c.NQN] != nil, c.NQN == capsule.DiscoveryNQN, c.NQN == t.discSub.nqn:
		return nil, errors.Join(fmt.Errorf("subsystem %s exists already", c.NQN), s.endLife(!s.life.inherits))
	}
	t.reshapeLocked([]*Subsystem{s}, func() {
		t.subsystems[c.NQN] = s
		t.sorted.add(s)
	})
	return s, nil
}

// subsystem finds a subsystem by the name that a host sent. It returns nil if there is none.
func (t *Target) subsystem(nqn *capsule.NQNField) *Subsystem {
	if nqn.Is(capsule.DiscoveryNQN) || nqn.Is(string(t.discSub.nqn)) {
		return t.discSub
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subsystems[nvmeof.NQN(nqn.String())]
}

// Unfinished lists the names of exports, in order, whose stores have not finished commands of hosts, or do not
// answer. Close waits for them.
func (t *Target) Unfinished() []string { return t.volumes.Unfinished(nil) }

// Close ends all connections, waits until none of their operations is in flight, and stops the shards. Stores stay
// open. A store that hangs delays it: [Target.Unfinished] names that store. Subsystems whose hosts do not use that
// store are closed, and their state saved, without waiting for it.
func (t *Target) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	listeners, devices := t.listeners, t.devices
	t.mu.Unlock()

	t.cancel()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.listener.Close())
	}
	t.dropQueues(func(*queue) bool { return true }, endTarget)
	all := t.Subsystems()
	closed := make([]error, len(all))
	var closing sync.WaitGroup
	for i, s := range all {
		closing.Go(func() { closed[i] = closeSubsystem(s) }) // ends when its stores have finished
	}
	closing.Wait()
	t.tasks.Wait()
	t.authenticator.stop()
	errs = append(errs, closed...)
	for _, d := range devices {
		errs = append(errs, d.stop())
	}
	return errors.Join(errs...)
}
