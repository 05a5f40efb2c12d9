package connections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// Config is the configuration of a holder.
type Config struct {
	Dir       string
	Connector Connector
	// FrontEnd publishes namespaces. It disconnects the clients of a disk that is removed, because the disk's memory is
	// freed. Nil: namespaces are not published.
	FrontEnd FrontEnd
	// Log is called from any goroutine with one line per event of a connection.
	Log func(line string)
	// Ended is called with the name of each controller that has ended, before another controller can get that name, and
	// with the reason why it was given up; nil if it was disconnected on request. Ended must not call the holder.
	// Default: no call.
	Ended func(name string, why error)
	// Addresses returns the addresses at which the process is the RoCE endpoint.
	Addresses func() []string
}

// A Holder keeps connections until they are disconnected or given up.
type Holder struct {
	config Config
	poke   chan struct{}   // something may have changed
	life   context.Context // until Close
	end    context.CancelFunc
	again  *time.Timer    // time to retry writing the names
	looks  sync.WaitGroup // running calls of lookAt; none begins once the holder is closed

	looked     bool                // reportDamaged was called; guarded by connecting
	connecting *semaphore.Weighted // capacity 1: held by Connect until the target has answered; before updating
	updating   sync.Mutex          // held while names, disks and controllers change, never for a target; before mu

	mu         sync.Mutex // guards the fields below
	subsystems []*subsystem
	closed     bool
	idle       chan struct{}     // closed while there is no controller, if there was one before
	lost       error             // why the last controller was given up
	reasons    map[string]string // why each controller was given up, by name
	lines      map[int]*Lines    // of subsystems, by number: a subsystem that reconnects keeps its remaining allowance
}

// A subsystem is a connected subsystem.
type subsystem struct {
	claim       *claim // of its first controller
	nqn         nvmeof.NQN
	hostNQN     nvmeof.NQN
	hostID      capsule.HostID
	link        Subsystem
	controllers []*controller
	namespaces  []Namespace
	numbers     map[capsule.NSID]int // of namespaces, valid while their identifiers are those of the same disks
	disks       map[int]string       // the disk that each number was given to, permanently
	given       map[string]int       // the inverse of disks; nil: findGiven makes it
	lowest      int                  // no lower number is free
	lines       *Lines               // log lines that the target can cause
	noted       map[int]string       // disks as recorded in the file; only these are published
	ending      bool                 // the last controller is about to be disconnected: nothing is published
	unnoted     bool                 // the file could not be updated yet; under Holder.updating
	adding      bool                 // another controller is being connected: the subsystem stays even without controllers
	turn        *semaphore.Weighted  // capacity 1: held while namespaces are listed, so that the latest list is kept
	looking     bool                 // watch has started a goroutine that lists them
	stale       bool                 // the namespaces must be listed again
}

// A controller is one path of a subsystem.
type controller struct {
	claim *claim
	path  Path
	link  Controller
	news  News
}

func (c *controller) name() string { return fmt.Sprintf("nvme%d", c.claim.number) }

// New starts a holder.
func New(c Config) *Holder {
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Ended == nil {
		c.Ended = func(string, error) {}
	}
	if c.Addresses == nil {
		c.Addresses = func() []string { return nil }
	}
	h := &Holder{
		config: c, poke: make(chan struct{}, 1), again: time.NewTimer(noteAgain), connecting: semaphore.NewWeighted(1),
		idle: make(chan struct{}), reasons: map[string]string{}, lines: map[int]*Lines{},
	}
	h.life, h.end = context.WithCancel(context.Background())
	h.again.Stop() // until remember sets it
	go h.watch()   // owned by the holder; ends in Close
	return h
}

// Idle returns a channel that is closed when the last controller is gone; Lost returns the reason unless it was
// disconnected on request. Once a controller has been connected again, Idle returns a new channel.
func (h *Holder) Idle() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.idle
}

// Lost returns why the last controller that was given up was given up.
func (h *Holder) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// errClosed is returned by Connect when the process is ending.
var errClosed = errors.New("this process is about to end")

// Connect connects by a path and returns the controller's name. Other calls of Connect wait meanwhile; nothing else
// does.
func (h *Holder) Connect(ctx context.Context, p Path) (string, error) {
	if err := h.connecting.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer h.connecting.Release(1)
	s, nqn := h.subsystem(&p), p.Options.NQN
	if s != nil {
		nqn = "" // the subsystem has its number already
	}
	number, err := claimNumber(h.config.Dir, nqn)
	if err != nil {
		h.notAdded(s)
		return "", err
	}
	if !h.looked {
		h.looked = true
		h.reportDamaged()
	}
	var c Controller
	if s != nil {
		c, err = s.link.Add(ctx, p)
	} else {
		s = number.subsystem(&p)
		s.link, c, err = h.begin(ctx, p)
	}
	if err != nil {
		h.notAdded(s)
		return "", errors.Join(err, number.release())
	}
	added := &controller{claim: number, path: p, link: c, news: NewsSince(Status{State: Live, ID: c.Status().ID})}
	if h.add(s, added) {
		err = errors.Join(errClosed, c.Disconnect())
	}
	h.tidy()
	h.lookAt(ctx, s)
	return added.name(), err
}

// reportDamaged logs the names that stay unused, so that users know why their disks have other names than before.
func (h *Holder) reportDamaged() {
	for _, file := range damaged(h.config.Dir) {
		h.config.Log(fmt.Sprintf("%s is damaged: the disk names that it reserved are not known and not used again, so some disks may have "+
			"other names than before; if no program relies on those names any more: rm %s", file, shell.Quote(file)))
	}
}

// subsystem makes a subsystem from a path, whose first controller has the claimed number.
func (c *claim) subsystem(p *Path) *subsystem {
	s := &subsystem{
		claim: c, nqn: p.Options.NQN, hostNQN: p.Options.HostNQN, hostID: p.Options.HostID, turn: semaphore.NewWeighted(1),
		numbers: map[capsule.NSID]int{}, disks: map[int]string{},
	}
	if c.past.Subsystem == s.nqn {
		maps.Copy(s.numbers, c.past.Namespaces)
		for _, n := range s.numbers { // recorded by a version that did not record the disks
			s.disks[n] = ""
		}
		maps.Copy(s.disks, c.past.Disks)
		s.noted = c.past.Disks
	}
	return s
}

// add adds a controller to a subsystem, possibly its first. It reports whether the holder is closed.
func (h *Holder) add(s *subsystem, added *controller) (closed bool) {
	first := s.claim == added.claim
	if first {
		h.updating.Lock()
		h.remember(s)
		h.updating.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.reasons, added.name())
	s.ending, s.adding = false, false
	if s.controllers = append(s.controllers, added); first {
		s.lines = h.linesOf(s)
		h.subsystems = append(h.subsystems, s)
	}
	if h.isIdle() {
		h.idle = make(chan struct{})
	}
	return h.closed
}

// notAdded undoes the effect of Holder.subsystem when no controller was added: the subsystem may have lost its other
// controllers meanwhile. s may be nil.
func (h *Holder) notAdded(s *subsystem) {
	if s == nil {
		return
	}
	h.mu.Lock()
	s.adding = false
	h.mu.Unlock()
	h.tidy()
}

// linesOf returns the limit of the lines that a subsystem's target can cause. Called with mu held.
func (h *Holder) linesOf(s *subsystem) *Lines {
	l := h.lines[s.claim.number]
	if l == nil {
		l = NewLines(s.name(), h.config.Log)
		h.lines[s.claim.number] = l
	}
	return l
}

// begin connects by the first path of a subsystem.
func (h *Holder) begin(ctx context.Context, p Path) (Subsystem, Controller, error) {
	s, all, err := h.config.Connector.Connect(ctx, []Path{p}, h.changed)
	if err != nil {
		return nil, nil, err
	}
	return s, all[0], nil
}

// subsystem returns the connected subsystem that a path leads to, or nil. The subsystem stays until the new controller
// is added or notAdded is called.
func (h *Holder) subsystem(p *Path) *subsystem {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subsystems {
		if s.nqn == p.Options.NQN && s.hostNQN == p.Options.HostNQN && s.hostID == p.Options.HostID {
			s.adding = true
			return s
		}
	}
	return nil
}

// SetPolicy sets the iopolicy of the selected subsystems and returns their names.
func (h *Holder) SetPolicy(policy string, which func(SubsystemInfo) bool) (names []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subsystems {
		if info := s.info(); which(info) {
			if err := s.link.SetPolicy(policy); err != nil {
				return names, err
			}
			names = append(names, info.Name)
		}
	}
	return names, nil
}

// Close disconnects all controllers.
func (h *Holder) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	var front error
	if h.config.FrontEnd != nil { // first, since it may have data left to write
		front = h.config.FrontEnd.Close()
	}
	_, err := h.Disconnect(func(SubsystemInfo, ControllerInfo) bool { return true })
	h.end()
	h.looks.Wait()
	if h.connecting.Acquire(context.Background(), 1) == nil { // a Connect that completes from now on disconnects again
		h.connecting.Release(1)
	}
	if h.config.FrontEnd != nil {
		front = errors.Join(front, h.config.FrontEnd.Close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		l.Report()
	}
	return errors.Join(front, err)
}

// A Measured is the name of a subsystem, such as nvme-subsys0, with the measures of its requests.
type Measured struct {
	Name string
	multipath.Measures
}

// Measure returns the measures of the requests to all subsystems.
func (h *Holder) Measure() (all []Measured) {
	h.mu.Lock()
	subsystems := slices.Clone(h.subsystems)
	h.mu.Unlock()
	for _, s := range subsystems {
		all = append(all, Measured{s.name(), s.link.Measure()})
	}
	return all
}

func (s *subsystem) name() string { return fmt.Sprintf("nvme-subsys%d", s.claim.number) }

// Info describes all connections of the process.
func (h *Holder) Info() Process {
	p, spaces := h.snapshot()
	ctx, cancel := context.WithTimeout(context.Background(), usedTime)
	defer cancel()
	for i := range p.Subsystems {
		if s := &p.Subsystems[i]; s.live() {
			for k := range s.Namespaces {
				s.Namespaces[k].Used = used(ctx, &spaces[i][k])
			}
		}
	}
	return p
}

// usedTime limits how long a query of a namespace's used size may take.
const usedTime = time.Second

// used returns how many bytes of a namespace are used, or its size if that is not known in time.
func used(ctx context.Context, n *Namespace) int64 {
	size := n.Store.Info().Size
	if n.Used == nil {
		return size
	}
	answer := make(chan int64, 1)
	go func() { // ends with the command, whose time the controller bounds
		u, err := n.Used(ctx)
		if err != nil {
			u = size
		}
		answer <- u
	}()
	select {
	case u := <-answer:
		return u
	case <-ctx.Done():
		return size
	}
}

// snapshot returns the description of all connections, and the namespaces of each subsystem.
func (h *Holder) snapshot() (p Process, spaces [][]Namespace) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p = Process{PID: os.Getpid(), Addresses: h.config.Addresses(), Subsystems: []SubsystemInfo{}, Lost: maps.Clone(h.reasons)}
	for _, s := range h.subsystems {
		info := s.info()
		for i := range info.Namespaces {
			if h.config.FrontEnd != nil {
				info.Namespaces[i].URI = h.config.FrontEnd.URI(s.disk(&s.namespaces[i]))
			}
		}
		p.Subsystems = append(p.Subsystems, info)
		spaces = append(spaces, slices.Clone(s.namespaces))
	}
	return p, spaces
}

// info describes a subsystem. Called with mu held.
func (s *subsystem) info() SubsystemInfo {
	i := SubsystemInfo{
		Name: s.name(), NQN: string(s.nqn), HostNQN: string(s.hostNQN),
		HostID: uuid.UUID(s.hostID).String(), Policy: s.link.Policy(),
	}
	ana := map[capsule.NSID]map[string]string{}
	for _, c := range s.controllers {
		st := c.link.Status()
		for id, state := range st.ANA {
			if ana[id] == nil {
				ana[id] = map[string]string{}
			}
			ana[id][c.name()] = state.String()
		}
		i.Model, i.Serial, i.Firmware = capsule.Text(st.Identify.MN[:]), capsule.Text(st.Identify.SN[:]), capsule.Text(st.Identify.FR[:])
		info := ControllerInfo{
			Name: c.name(), Transport: "rdma", Traddr: c.path.Options.Traddr.String(), Trsvcid: fmt.Sprint(c.path.Options.Trsvcid),
			HostTraddr: c.path.HostTraddr, Borrower: c.path.Borrower, State: st.State, ID: uint16(st.ID),
			ReconnectDelay: c.path.Timers.ReconnectDelay.Seconds(), CtrlLossTmo: c.path.Timers.CtrlLossTmo.Seconds(),
			FastIOFailTmo: c.path.Timers.FastIOFailTmo.Seconds(), KeepAliveTmo: keepAlive(c.path.Options.KeepAliveTmo).Seconds(),
		}
		if st.Err != nil {
			info.Error = st.Err.Error()
		}
		i.Controllers = append(i.Controllers, info)
	}
	for _, n := range s.namespaces {
		info := s.namespaceInfo(&n)
		info.ANA = ana[n.ID]
		i.Namespaces = append(i.Namespaces, info)
	}
	return i
}

// keepAlive returns the effective keep alive timeout of a connection.
func keepAlive(d time.Duration) time.Duration {
	if d == 0 {
		return nvmeof.DefaultKeepAlive
	}
	return max(d, 0)
}

func (s *subsystem) namespaceInfo(n *Namespace) NamespaceInfo {
	info := n.Store.Info()
	i := NamespaceInfo{Name: s.namespaceName(n.ID), ID: uint32(n.ID), Size: info.Size, Used: info.Size, BlockSize: info.BlockSize}
	if n.Identifiers.UUID != uuid.Nil {
		i.UUID = n.Identifiers.UUID.String()
	}
	return i
}

func (s *subsystem) disk(n *Namespace) nbd.Disk {
	info := n.Store.Info()
	return nbd.Disk{
		Name: s.namespaceName(n.ID), Store: n.Store, NewMemory: n.NewMemory,
		Description: fmt.Sprintf("%s: namespace %d of %v, %d bytes in blocks of %d", s.namespaceName(n.ID), n.ID, s.nqn, info.Size, info.BlockSize),
	}
}

// noteAgain is the delay before names that could not be recorded are written again.
const noteAgain = 10 * time.Second

// remember records the names of the subsystem and its namespaces for later processes. If this fails, for example on a
// full file system, look retries. Namespaces whose names are not recorded are not published, because after a restart
// the names may be those of other disks. Called with updating held.
func (h *Holder) remember(s *subsystem) {
	disks := maps.Clone(s.disks)
	err := s.claim.remember(past{s.nqn, maps.Clone(s.numbers), disks})
	if err != nil {
		h.again.Reset(noteAgain)
		if !s.unnoted {
			h.config.Log(fmt.Sprintf("%v; new namespaces of %v are published when their names can be saved", err, s.nqn))
		}
		s.unnoted = true
		return
	}
	s.unnoted, s.noted = false, disks
}

// isNoted reports whether the file records the namespace's name as that of this disk.
func (s *subsystem) isNoted(id capsule.NSID) bool {
	number := s.numbers[id]
	return s.noted[number] == s.disks[number]
}

// renewClaims claims the numbers of controllers again if their files were removed.
func (h *Holder) renewClaims() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subsystems {
		if err := s.claim.renew(); err != nil {
			h.config.Log(err.Error())
		}
		for _, c := range s.controllers {
			if c.claim == s.claim {
				continue
			}
			if err := c.claim.renew(); err != nil {
				h.config.Log(err.Error())
			}
		}
	}
}
