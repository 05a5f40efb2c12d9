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
	Store    state.Store // default: that of the document
	// Alarm is called with what an administrator has to know, and Took with the ANA groups that
	// came here. Joined is called with a gateway whose state is another than before. Default: nobody is called.
	Alarm  func(group.Alarm)
	Took   func(group.Took)
	Joined func(gateway, state string)

	LeaseTerm time.Duration // of groups with fence: lease; 0: as of [group.Config]
	Settle    time.Duration // between moves for balance; 0: likewise
	OrderTime time.Duration // that an administrator waits for the group's store; 0: 10 s
}

// Times.
const (
	claimTime = time.Minute      // for the store to give a range of controller identifiers
	leaveTime = 12 * time.Second // for what the gateway serves, at its end
	readTime  = 5 * time.Second  // for the runner to say how the group is
)

// A Gateway is a target of a group.
type Gateway struct {
	cfg   Config
	name  string
	slot  int
	store state.Store
	run   atomic.Pointer[runner.Runner] // nil: it does not run
	owned target.Gateway

	manager *control.Manager // constant once Run is called
	target  *target.Target   // constant once Complete is called

	images  clients
	keepers *keepers
	files   *files
	faults  *faults
	listed  directory // of controllers
	term    term
	// releaseTime is the constant of that name, but in tests; constant.
	releaseTime time.Duration

	locks [group.MaxID + 1]sync.Mutex // of each group: it is opened or closed by one at a time

	counts   counts
	loads    loads
	sizes    sizes
	stuck    atomic.Bool   // another gateway cannot serve
	followed chan struct{} // has an element when the target has another configuration
	erasing  chan struct{} // likewise

	documents documents

	mu         sync.Mutex // guards what follows
	alarms     map[group.Alarm]time.Time
	peers      []target.Peer
	listing    state.Revision    // of them
	generation uint64            // of the discovery log, the last one from the store
	states     map[string]string // of the other gateways, by name
	logged     map[int]bool      // ANA groups of which the log says that they are unfenced
}

// Open opens the group's store, and gets the range of controller identifiers for the gateway.
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
			return nil, fmt.Errorf("group.gateway is missing, and so is the machine's name: %w", err)
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

// Controllers is the range of controller identifiers of the gateway.
func (g *Gateway) Controllers() target.ControllerRange {
	first, last := group.ControllerIDs(g.slot, 0)
	return target.ControllerRange{First: capsule.ControllerID(first), Last: capsule.ControllerID(last)}
}

// Complete adds to a manager's configuration, and to its target's, what makes of them a gateway.
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
}

// Name is that of the gateway.
func (g *Gateway) Name() string { return g.name }

// Owned is what the target may serve.
func (g *Gateway) Owned() *target.Gateway { return &g.owned }

// Run is a gateway until ctx ends, and then gives back what it serves, so far as that has a time.
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
	tender := newTender(g, run)
	for _, look := range []func(context.Context){tender.storage, tender.service} {
		all.Go(func() { tend(ctx, look) }) // likewise
	}
	<-ctx.Done()
	leaving, cancel := context.WithTimeout(context.Background(), leaveTime+leaveTime/2)
	defer cancel()
	if err := run.Leave(leaving); err != nil {
		g.cfg.Log.Warn("the gateway has not left the group: others fence it", zap.Error(err))
	}
	g.run.Store(nil)
	run.Close()
	all.Wait()
	return nil
}

// Close closes the store. Run has returned.
func (g *Gateway) Close() error {
	g.images.close()
	return g.store.Close()
}

// addresses are those to which hosts connect.
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
