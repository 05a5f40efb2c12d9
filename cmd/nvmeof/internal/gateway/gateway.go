package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/runner"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Config describes a gateway.
type Config struct {
	Document *config.Document // of the target, with its group
	Log      *zap.Logger
	Store    state.Store // default: the one that the document names
	// Alarm is called with alarms for the administrator, and Took with the ANA groups that came
	// here. Joined is called with a gateway whose state has changed. Each may be nil.
	Alarm  func(group.Alarm)
	Took   func(group.Took)
	Joined func(gateway, state string)

	LeaseTerm time.Duration // of groups with fence: lease; 0: the default of [group.Config]
	Settle    time.Duration // between moves for balance; 0: likewise
	OrderTime time.Duration // time limit of an administrator's order; 0: 10 s
}

// Time limits.
const (
	claimTime = time.Minute      // for claiming a range of controller identifiers
	leaveTime = 12 * time.Second // for giving back all groups, when the gateway leaves
	readTime  = 5 * time.Second  // for reading the runner's status
)

// A Gateway is a gateway of a group, with its target.
type Gateway struct {
	cfg   Config
	name  string
	slot  int
	store state.Store
	run   atomic.Pointer[runner.Runner] // nil: not running
	owned target.Gateway

	manager *control.Manager // constant once Run is called
	target  *target.Target   // constant once Complete is called

	images  clients
	keepers *keepers
	files   *files
	faults  *faults
	listed  directory // of controllers
	term    term
	// releaseTime is the constant of that name, except in tests; constant.
	releaseTime time.Duration

	locks [group.MaxID + 1]sync.Mutex // of each group: one goroutine at a time opens or closes it

	counts   counts
	loads    loads
	sizes    sizes
	stuck    atomic.Bool   // another gateway cannot serve
	followed chan struct{} // signals enforce that the target has another configuration
	erasing  chan struct{} // likewise erase

	documents documents

	mu         sync.Mutex // guards what follows
	alarms     map[group.Alarm]time.Time
	peers      []target.Peer
	listing    state.Revision    // of the peers
	generation uint64            // of the discovery log, the last one that was set
	states     map[string]string // of the other gateways, by name
	logged     map[int]bool      // ANA groups that were logged as unfenced
}

// Open opens the group's store, and claims the gateway's range of controller identifiers.
func Open(ctx context.Context, cfg Config) (*Gateway, error) {
	cfg.OrderTime = cmp.Or(cfg.OrderTime, 10*time.Second)
	g := &Gateway{cfg: cfg, name: cfg.Document.Group.Gateway, store: cfg.Store, releaseTime: releaseTime, alarms: map[group.Alarm]time.Time{}, logged: map[int]bool{}, followed: make(chan struct{}, 1), erasing: make(chan struct{}, 1)}
	g.loads.every, g.sizes.look = loadEvery, make(chan []capsule.ANAGroup)
	g.keepers, g.listed.gateway, g.listed.stale = newKeepers(g), g, make(chan struct{}, 1)
	g.files, g.faults = &files{gateway: g, known: map[config.Path]control.FileNote{}}, &faults{g}
	g.owned.Directory = g.listed.of
	g.owned.SetBehind(true) // until the configuration has come
	if g.name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("group.gateway is missing, and the machine's host name is not known: %w", err)
		}
		g.name = host
	}
	var err error
	if g.store == nil {
		if g.store, err = openStore(ctx, &cfg.Document.Group, cfg.Log); err != nil {
			return nil, fmt.Errorf("group %s: %w", cfg.Document.Group.Store, err)
		}
	}
	g.store = countedStore{g.store, &g.counts}
	limited, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	if g.slot, err = claim(limited, g.store, g.name); err != nil {
		_ = g.store.Close() // nothing was begun
		return nil, fmt.Errorf("group %s: %w", cfg.Document.Group.Store, err)
	}
	if g.owned.Generation, err = present(limited, g.store); err != nil {
		_ = g.store.Close() // nothing was begun
		return nil, fmt.Errorf("group %s: %w", cfg.Document.Group.Store, err)
	}
	if _, err = g.files.read(limited); err != nil {
		_ = g.store.Close() // nothing was begun
		return nil, fmt.Errorf("group %s: %w", cfg.Document.Group.Store, err)
	}
	return g, nil
}

// Controllers returns the range of controller identifiers of the gateway.
func (g *Gateway) Controllers() target.ControllerRange {
	first, last := group.ControllerIDs(g.slot, 0)
	return target.ControllerRange{First: capsule.ControllerID(first), Last: capsule.ControllerID(last)}
}

// Complete adds the gateway to the configuration of a manager.
func (g *Gateway) Complete(c *control.Config) {
	c.Gateway, c.Group, c.Gateways, c.Keeper, c.RemoveImage = &g.owned, (*shared)(g), g, g.keepers.keeper, g.images.removeImage
	c.Files, c.Faults = g.files, g.faults
	g.target = c.Target
	open := c.Open
	c.Open = func(n *config.Namespace, memory *memory.Pool) (backend.Store, []string, error) {
		if n.RBD != nil {
			s, err := g.images.openImage(n.RBD, n.BlockSize)
			return s, nil, err
		}
		return open(n, memory)
	}
	probe := c.Probe
	if probe == nil {
		probe = control.ProbeStore
	}
	c.Probe = func(n *config.Namespace) (control.Probed, error) {
		p, err := probe(n)
		if err == nil && n.RBD != nil {
			g.images.pools.learn(n.RBD, p.Pools)
		}
		return p, err
	}
}

// Name returns the name of the gateway.
func (g *Gateway) Name() string { return g.name }

// Owned returns the ANA groups that the target serves.
func (g *Gateway) Owned() *target.Gateway { return &g.owned }

// Run runs the gateway until ctx ends, and then gives back its groups, within a time limit.
func (g *Gateway) Run(ctx context.Context, m *control.Manager) error {
	g.manager = m
	run, err := runner.Start(runner.Config{
		Gateway: group.Config{Name: g.name, Addresses: addresses(g.cfg.Document), LeaveTimeout: leaveTime,
			LeaseTerm: g.cfg.LeaseTerm, Settle: g.cfg.Settle},
		Groups: groups(control.Present(m)), Store: g.store, Target: (*served)(g), Alarm: g.alarm, Took: g.took, Changed: g.changed,
	})
	if err != nil {
		return err
	}
	run.Starting() // until follow has got the configuration
	g.run.Store(run)
	var all sync.WaitGroup
	all.Go(func() { g.follow(ctx, run) })               // ends with ctx
	all.Go(func() { g.enforce(ctx) })                   // likewise
	all.Go(func() { g.erase(ctx) })                     // likewise
	all.Go(func() { g.measure(ctx) })                   // likewise
	all.Go(func() { g.sizes.follow(ctx, m) })           // likewise
	all.Go(func() { g.keepers.notice(ctx) })            // likewise
	all.Go(func() { g.files.notice(ctx) })              // likewise
	all.Go(func() { g.faults.follow(ctx) })             // likewise
	all.Go(func() { g.listed.run(ctx, g.keepers.any) }) // likewise
	monitor := newMonitor(g, run)
	for _, look := range []func(context.Context){monitor.storage, monitor.service} {
		all.Go(func() { repeat(ctx, look) }) // likewise
	}
	<-ctx.Done()
	leaving, cancel := context.WithTimeout(context.Background(), leaveTime+leaveTime/2)
	defer cancel()
	if err := run.Leave(leaving); err != nil {
		g.cfg.Log.Warn("the gateway could not leave the group; other gateways will fence it", zap.Error(err))
	}
	g.run.Store(nil)
	run.Close()
	all.Wait()
	return nil
}

// Close closes the store. Run must have returned.
func (g *Gateway) Close() error {
	g.images.close()
	return g.store.Close()
}

// addresses returns the addresses to which hosts connect.
func addresses(doc *config.Document) (all []string) {
	for _, l := range doc.Listeners {
		if !l.Wildcard() {
			all = append(all, l.Address.String())
			continue
		}
		here, err := control.MachineAddresses()
		if err != nil {
			continue // the listener waits for them, too
		}
		for _, a := range here {
			if a.Is4() == l.Address.Addr().Is4() {
				all = append(all, netip.AddrPortFrom(a, l.Address.Port()).String())
			}
		}
	}
	return all
}
