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

// Config describes a holder.
type Config struct {
	Dir       string
	Connector Connector
	// FrontEnd sends away who uses a disk that goes, since its memory goes too. Nil:
	// namespaces are not published.
	FrontEnd FrontEnd
	// Log is called for each event of a connection, with a line; from any goroutine.
	Log func(line string)
	// Ended is called with the name of each controller that has ended, before another one can have it, and why it
	// was given up; nil: somebody had it disconnected. It may not call the holder. Default: nobody is called.
	Ended func(name string, why error)
	// Addresses are those of which the process is the RoCE endpoint.
	Addresses func() []string
}

// A Holder keeps connections until they are disconnected or given up.
type Holder struct {
	config Config
	poke   chan struct{}   // something may have changed
	life   context.Context // until Close
	end    context.CancelFunc
	again  *time.Timer    // names are to be noted again
	looks  sync.WaitGroup // at namespaces; none begins once the holder is closed

	looked     bool                // whether notes are damaged, under connecting
	connecting *semaphore.Weighted // of one: whoever connects has it until the target has answered; before updating
	updating   sync.Mutex          // held while names are given, disks published, and what is over is ended, for which no target is waited for; before mu

	mu         sync.Mutex // guards what follows
	subsystems []*subsystem
	closed     bool
	idle       chan struct{}     // closed while there was a controller and there is none any more
	lost       error             // why the last one that was given up was
	reasons    map[string]string // of all that were, by name
	lines      map[int]*Lines    // of subsystems by their numbers: who comes again goes on with what it has left
}

// A subsystem is one that is connected.
type subsystem struct {
	claim       *claim // of its first controller
	nqn         nvmeof.NQN
	hostNQN     nvmeof.NQN
	hostID      capsule.HostID
	link        Subsystem
	controllers []*controller
	namespaces  []Namespace
	numbers     map[capsule.NSID]int // of namespaces, as long as their identifiers are those of the same disks
	disks       map[int]string       // which a number was given to, for good
	given       map[string]int       // the other way round; nil: findGiven makes it
	lowest      int                  // none below it is free
	lines       *Lines               // that its target can cause
	noted       map[int]string       // the disks, as far as the file says so: others are not published
	ending      bool                 // its last controller is about to be disconnected: nothing is published
	unnoted     bool                 // the file does not say so yet; under Holder.updating
	adding      bool                 // another controller is being connected to: it does not end without any
	turn        *semaphore.Weighted  // of one: who looks at the namespaces has it, so that what was listed last counts
	looking     bool                 // somebody does for watch
	stale       bool                 // they are to be looked at again
}

// A controller is one of its paths.
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

// Idle is closed when the last controller is gone, and Lost says why, if it was not
// by somebody's wish. After another one has come it is another channel.
func (h *Holder) Idle() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.idle
}

// Lost is why the last controller that was given up was.
func (h *Holder) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// errClosed is what comes of connecting while the process ends.
var errClosed = errors.New("this process is about to end")

// Connect connects by a path, and returns the controller's name. Others wait for their turn meanwhile, but nothing
// else does.
func (h *Holder) Connect(ctx context.Context, p Path) (string, error) {
	if err := h.connecting.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer h.connecting.Release(1)
	s, nqn := h.subsystem(&p), p.Options.NQN
	if s != nil {
		nqn = "" // it has its number
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

// reportDamaged says which names nobody gets, so that who finds disks by other names than before knows why.
func (h *Holder) reportDamaged() {
	for _, file := range damaged(h.config.Dir) {
		h.config.Log(fmt.Sprintf("%s is damaged: whose disks had names with its number is not known, and none gets them, so that some may have "+
			"other names than before; if no program relies on those names any more: rm %s", file, shell.Quote(file)))
	}
}

// subsystem is one whose first controller has that number, by a path.
func (c *claim) subsystem(p *Path) *subsystem {
	s := &subsystem{
		claim: c, nqn: p.Options.NQN, hostNQN: p.Options.HostNQN, hostID: p.Options.HostID, turn: semaphore.NewWeighted(1),
		numbers: map[capsule.NSID]int{}, disks: map[int]string{},
	}
	if c.past.Subsystem == s.nqn {
		maps.Copy(s.numbers, c.past.Namespaces)
		for _, n := range s.numbers { // which a version noted that did not note the disks
			s.disks[n] = ""
		}
		maps.Copy(s.disks, c.past.Disks)
		s.noted = c.past.Disks
	}
	return s
}

// add adds a controller to a subsystem, which may be its first one. It reports whether the holder is closed.
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

// notAdded ends the wait for another controller of a subsystem, which may have lost the others meanwhile; nil: there
// is none.
func (h *Holder) notAdded(s *subsystem) {
	if s == nil {
		return
	}
	h.mu.Lock()
	s.adding = false
	h.mu.Unlock()
	h.tidy()
}

// linesOf are those that the target of a subsystem can cause. Under mu.
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

// subsystem is the one that a path leads to, if it is connected by another path. It stays until the new controller
// is added, or notAdded is called.
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

// SetPolicy sets the iopolicy of the subsystems selected, and returns their
// names.
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

// Close disconnects everything.
func (h *Holder) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	var front error
	if h.config.FrontEnd != nil { // first, since it still has something to write
		front = h.config.FrontEnd.Close()
	}
	_, err := h.Disconnect(func(SubsystemInfo, ControllerInfo) bool { return true })
	h.end()
	h.looks.Wait()
	if h.connecting.Acquire(context.Background(), 1) == nil { // who connects now disconnects again
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

// A Measured is a subsystem by its name, as nvme-subsys0, and what its requests came to.
type Measured struct {
	Name string
	multipath.Measures
}

// Measure is what the requests to all subsystems came to.
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

// Info is what there is.
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

// usedTime bounds how long it takes to read how much of a namespace is used.
const usedTime = time.Second

// used is how much of a namespace is used, or its size where nobody says so in time.
func used(ctx context.Context, n *Namespace) int64 {
	size := n.Store.Info().Size
	if n.Used == nil {
		return size
	}
	answer := make(chan int64, 1)
	go func() { // ends with the command, which its controller bounds
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

// snapshot is what there is, and the namespaces of each subsystem.
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

// info describes a subsystem. Under mu.
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

// keepAlive is the effective timeout of a connection.
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

// noteAgain is after what time names are noted again that could not be.
const noteAgain = 10 * time.Second

// remember notes for later processes how the subsystem and its namespaces are called. Where
// that fails, as on a file system that is full, look does it again: names that are not noted may be
// another disk's after a restart, and nothing is published by them. Under updating.
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

// isNoted reports whether a later process knows the name of a namespace as that of this disk.
func (s *subsystem) isNoted(id capsule.NSID) bool {
	number := s.numbers[id]
	return s.noted[number] == s.disks[number]
}

// renewClaims takes the numbers of controllers anew as far as their files have gone.
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
