package control

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Config configures a Manager. A zero field selects the default.
type Config struct {
	// Target is required. It must have no devices, subsystems and listeners. The Manager owns it, and closes it.
	Target *target.Target
	// Device opens the RDMA device of an address. The Manager owns the device. Required for listeners. The
	// transport is the listener's own; empty means that of the settings. The Manager waits 5 s for it, and may open
	// other devices meanwhile.
	Device func(netip.Addr, config.Transport) (rdmatransport.Device, error)
	// DeviceName returns the name of the device of an address: listeners with the same name share it. Default: each
	// address has a device of its own.
	DeviceName func(netip.Addr, config.Transport) string
	// Away reports whether an error of Device says that the device is not available now, but may be later. Default:
	// if the address, or what is to be opened, does not exist.
	Away func(error) bool
	// Addresses returns the addresses of this machine that a listener on 0.0.0.0 or [::] serves. Default:
	// MachineAddresses.
	Addresses func() ([]netip.Addr, error)
	// Serves reports whether such a listener is to serve an address now. Default: all.
	Serves func(netip.Addr, config.Transport) bool
	// Listening is called with each address at which hosts can connect from now on, and the identifier of its
	// listener in the document.
	Listening func(listener int, at netip.AddrPort)
	// Troubled returns the problems of the target's own files, such as its audit, for the Status. Default: none.
	Troubled func() []Trouble
	// Names are earlier names of files and devices, by present path. The UUIDs of namespaces for which the document
	// has none are derived from them. Not for stores that gateways share.
	Names map[config.Path]string
	// Closing is called with a device that is about to be closed, while it still works.
	Closing func(rdmatransport.Device)
	// Settings has the settings with which the target was created (see TakeSettings), and, if File is set, the
	// whole document that the file had then. Required.
	Settings *config.Document
	Log      *zap.Logger // default: none
	// Audit is called with each operation of the API that changes something, or that was refused, after it has
	// ended. It must return soon. Optional.
	Audit func(Operation)
	// Events receives changes and what the target waits for; the API serves it. It is the log of [target.Config],
	// and remains the caller's. Default: none.
	Events *events.Log
	File   string // file for Save; default: as its caller says
	// State is a folder that outlives the target, for notes of files that it created, so that each is created only
	// once. Without it, a start does not create the file of a namespace to which the document gives an identity; a
	// namespace without one gets a new identity.
	State  string
	Getenv func(string) string // default os.Getenv
	// Files are notes that gateways share, in place of State. Required with Group for namespaces in files that have
	// a size: without it, each gateway creates missing files. Default: none.
	Files FileNotes
	// Faults are failures of stores that gateways share. Default: a failure ends when the store is closed.
	Faults Faults
	// Open opens the store of a namespace, and returns notes for the administrator. Default: that of an [Opener].
	// Memory must be in the pool.
	Open func(*config.Namespace, *memory.Pool) (backend.Store, []string, error)
	// RemoveImage removes an image that nobody has open, for [Erase]. It returns no error if the image does not
	// exist. Default: rbd.Remove.
	RemoveImage func(*config.RBD) error
	// Gateway is that of Target, if it is one of several targets; see ServeGroup. Default: the target serves all
	// groups itself.
	Gateway *target.Gateway
	// Probe returns the properties of a namespace whose group another target serves. Default: ProbeStore. A
	// function that keeps records can be faster.
	Probe func(*config.Namespace) (Probed, error)
	// Keeper returns what keeps the reservations of a namespace for the targets that serve it. It is called again
	// whenever the namespace changes. Default: none; then hosts of a Gateway cannot make reservations.
	Keeper func(nvmeof.NQN, *target.NamespaceConfig) target.ReservationKeeper
	// Permit returns an error if the process has confined itself such that it cannot read, or write, a file that a
	// change names, whatever the file's permissions are. Default: it can.
	Permit func(path string, written bool) error
	// Moved is the state of another Manager, in a process that has given it up. This one continues with its
	// document, its memory and, after the document is applied, by Adopt, its hosts. Default: none.
	Moved *Moved
	// Group stores the subsystems and referrals that the target shares with other gateways. Default: the target has
	// its own.
	Group Group
	// Gateways decides which gateway serves what. Only the API needs it, with Group.
	Gateways Gateways
	// TakeOver is called by the API for a process that wants to continue with the hosts of this one, and that
	// listens at a unix socket. It returns when it has begun to communicate with that process. Default: takeovers
	// are refused.
	TakeOver func(socket string) error
}

// A Manager makes a target what a document says. Its methods may be called from any goroutine.
type Manager struct {
	cfg     Config
	log     *zap.Logger
	target  *target.Target
	started time.Time
	context context.Context // ends with Close
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // goroutines that wait for stores and devices; started under mu

	watchers     sync.WaitGroup      // goroutines of listeners
	opening      *semaphore.Weighted // limits stores that are opened without mu
	removals     sync.WaitGroup      // removals in progress, see remove; started under mu
	leaveTimeout time.Duration       // constant, like the next five

	startTimeout, changeTimeout, erasedTime, firstWait, stillFor time.Duration

	followers followers // calls that wait for events

	parts atomic.Pointer[map[int]int] // for each target listener that belongs to a wildcard, its listener in the document; set under mu

	gauge    gauge
	requests requests
	refusals refusals
	handed   atomic.Bool // another process has the target: see Export

	mu       sync.Mutex // allows one change at a time; guards the following
	closed   bool
	doc      *config.Document // immutable: a change replaces it
	shared   *config.Document // the group's document at revision
	revision int64            // 0: none yet
	behind   error            // why the target differs from shared; nil: it does not
	lost     bool             // the group no longer has a document
	tidied   bool             // notes of erased files were looked for
	// denied are the subsystems in which hosts may have commands in progress that they are no longer allowed, with
	// the namespaces in which these are known not to end: see Enforce.
	denied    map[nvmeof.NQN][]capsule.NSID
	saved     *config.Document     // content of File when it was last read or written
	listeners map[int]*listening   // by identifier in the target
	wildcards map[int]*wildcard    // by identifier in the document
	named     map[int]bool         // listener identifiers of the document, or of the one that a change makes
	exposed   map[nvmeof.NQN][]int // document listeners of each subsystem; none: all
	devices   map[string]*heldDevice
	closings  map[string]*heldDevice // devices that are being closed
	stores    stores
	waiting   map[namespaceKey]*wait
	misplaced misplacedRecords // as found at the start
	keyless   map[hostKey]*keyWait
	foreign   map[namespaceKey]*foreign
	releases  map[<-chan struct{}]bool // releases of groups in progress; see closeFreed
	erasures  map[*erasure]struct{}
	turns     map[capsule.ANAGroup]*sync.Mutex // held to close the stores of a group; taken before mu
	probed    map[namespaceKey]*Probed         // properties of namespaces that are or were foreign
	leaving   map[*leaving]struct{}
	late      bool     // the current change has waited for a removal as long as it may
	doubts    []string // warnings of the current change about key files
}

// A namespaceKey identifies a namespace of a subsystem.
type namespaceKey struct {
	nqn  nvmeof.NQN
	nsid int
}

// New returns a Manager of a target that does nothing yet. It panics if a required field of Config is missing.
func New(cfg Config) *Manager {
	if cfg.Target == nil || cfg.Settings == nil {
		panic("control: Config.Target and Config.Settings are required")
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Addresses == nil {
		cfg.Addresses = MachineAddresses
	}
	if cfg.Open == nil {
		cfg.Open = NewOpener().Open
	}
	if cfg.Probe == nil {
		cfg.Probe = ProbeStore
	}
	if cfg.RemoveImage == nil {
		cfg.RemoveImage = func(n *config.RBD) error { return rbd.Remove(n.Image, rbd.Config{Conf: string(n.Conf), ID: n.ID}) }
	}
	if cfg.Permit == nil {
		cfg.Permit = func(string, bool) error { return nil }
	}
	m := &Manager{
		cfg: cfg, log: cfg.Log, target: cfg.Target, started: time.Now(), opening: semaphore.NewWeighted(openings),
		listeners: map[int]*listening{}, devices: map[string]*heldDevice{}, closings: map[string]*heldDevice{}, waiting: map[namespaceKey]*wait{}, denied: map[nvmeof.NQN][]capsule.NSID{}, keyless: map[hostKey]*keyWait{}, foreign: map[namespaceKey]*foreign{}, erasures: map[*erasure]struct{}{}, releases: map[<-chan struct{}]bool{}, turns: map[capsule.ANAGroup]*sync.Mutex{}, probed: map[namespaceKey]*Probed{},
		wildcards: map[int]*wildcard{}, named: map[int]bool{}, exposed: map[nvmeof.NQN][]int{}, leaving: map[*leaving]struct{}{}, leaveTimeout: leaveTimeout, startTimeout: startTimeout, changeTimeout: changeTimeout, erasedTime: erasedTime, firstWait: firstWait, stillFor: stillFor,
		stores: stores{log: cfg.Log, open: cfg.Open, pool: new(memory.Pool), held: map[storeKey]*heldStore{}, aside: map[storeKey]*heldStore{}, ahead: map[storeKey]*ahead{}, known: known(cfg.State), notes: cfg.Files, faults: faultBook{marks: cfg.Faults, ahead: map[config.Path]Fault{}}, used: map[config.Path]bool{}, failed: map[storeKey]string{}},
	}
	m.stores.begin(startTimeout)
	m.stores.setRecordTime(changeTimeout)
	m.stores.openedLate = m.openedLate
	m.stores.awaited = func(key storeKey, as *config.Namespace) bool { _, awaited := awaits(m, key, as); return awaited }
	m.doc, m.shared = new(config.Document), new(config.Document)
	m.doc.TakeSettings(cfg.Settings)
	m.saved = cfg.Settings
	if cfg.Moved != nil {
		m.saved = cfg.Moved.Saved
		m.stores.continueFrom(cfg.Moved)
	}
	m.context, m.cancel = context.WithCancel(context.Background())
	return m
}

// Document returns the present document of the target. It includes objects that the target still waits for.
func (m *Manager) Document() *config.Document { return m.present().Clone() }

// Present is [Manager.Document] without a copy. The caller must not change it.
func Present(m *Manager) *config.Document { return m.present() }

// present implements Present.
func (m *Manager) present() *config.Document {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doc
}

// Close notifies hosts, stops the target, and then closes devices and stores. It waits for a change that is being
// made. For the first file system that hangs while a file is saved or closed it waits for 5 s, and less for others,
// whose files are left as they are. It waits until stores have finished the commands of hosts, however long that
// takes; these stores are logged, and [target.Target.Unfinished] lists them.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.stores.begin(m.changeTimeout)
	if err := saveRecords(m); err != nil {
		m.log.Warn("reservations or write protection of hosts could not be saved: the next start cannot read them", zap.Error(err))
	}
	beginClose(m)
	m.mu.Unlock()
	return finish(m)
}

// beginClose prevents further changes. The caller holds mu.
func beginClose(m *Manager) {
	m.closed = true
	m.stores.begin(m.startTimeout)
	m.stores.setRecordTime(0)
	m.cancel()
}

// finish ends everything else after beginClose.
func finish(m *Manager) error {
	m.tasks.Wait()
	for _, d := range m.devices {
		m.closing(d)
	}
	errs := []error{closeTarget(m)}
	m.watchers.Wait()
	m.removals.Wait()
	for _, d := range m.devices {
		errs = append(errs, d.rdma.Close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores.begin(m.startTimeout)
	return errors.Join(append(errs, m.stores.close())...)
}

// closeTarget closes the target, and logs the stores that it waits for.
func closeTarget(m *Manager) error {
	ended := make(chan error, 1)
	m.removals.Go(func() { ended <- m.target.Close() }) // ends when the stores have finished
	again := time.NewTicker(m.leaveTimeout)
	defer again.Stop()
	for before := []string(nil); ; {
		select {
		case err := <-ended:
			return err
		case <-again.C:
		}
		if names := m.target.Unfinished(); !slices.Equal(names, before) {
			m.log.Warn("stopping: a store hangs, and the target waits for its commands", zap.Strings("waits_for_store_of", names),
				zap.String("remedy", "check the file system or device of the store"))
			before = names
		}
	}
}

// subsystem returns a subsystem of the target.
func (m *Manager) subsystem(nqn nvmeof.NQN) (*target.Subsystem, error) {
	var there []string
	for _, s := range m.target.Subsystems() {
		if s.NQN() == nqn {
			return s, nil
		}
		there = append(there, string(s.NQN()))
	}
	return nil, &NotFoundError{"subsystem", string(nqn), there}
}

func namespace(s *target.Subsystem, nsid int) (*target.Namespace, error) {
	for _, n := range s.Namespaces() {
		if n.ID() == capsule.NSID(nsid) {
			return n, nil
		}
	}
	return nil, &NotFoundError{Kind: "namespace", Name: itoa(nsid)}
}
