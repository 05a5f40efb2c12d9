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

// Config describes a Manager. A zero field takes the default.
type Config struct {
	// Target is required, without devices, subsystems and listeners. It becomes the
	// Manager's, which closes it.
	Target *target.Target
	// Device opens the RDMA device of an address, which becomes the Manager's. Required
	// for listeners. The transport is the listener's own; empty: that of the settings. One that
	// does not return is waited for 5 s, and others are opened beside it.
	Device func(netip.Addr, config.Transport) (rdmatransport.Device, error)
	// DeviceName names the device of an address: listeners of one name share it. Default: each
	// address has a device of its own.
	DeviceName func(netip.Addr, config.Transport) string
	// Away reports whether an error of Device says that the device is not there now, and
	// may be later; default: where the address, or what is to be opened, does not exist.
	Away func(error) bool
	// Addresses are those of this machine for which a listener on 0.0.0.0 or [::] stands;
	// default: MachineAddresses.
	Addresses func() ([]netip.Addr, error)
	// Serves reports whether such a listener serves an address now; default: all.
	Serves func(netip.Addr, config.Transport) bool
	// Listening is called with each address at which hosts can connect from now on, with the
	// identifier of its listener in the document.
	Listening func(listener int, at netip.AddrPort)
	// Troubled lists what is wrong with files of the target's own, as its audit, for the Status; default:
	// nothing is.
	Troubled func() []Trouble
	// Names are other names of files and devices, from which the UUIDs follow of namespaces that
	// have none in the document: those by which they were exported before. Not for what gateways share.
	Names map[config.Path]string
	// Closing is called with a device that is about to be closed, while it still works.
	Closing func(rdmatransport.Device)
	// Settings has the settings with which the target was made (see TakeSettings), and
	// with File all that the file said then. Required.
	Settings *config.Document
	Log      *zap.Logger // default: none
	// Audit is called with each operation of the API that changes something, or would have, after
	// it was carried out; it has to return soon. Default: nobody is.
	Audit func(Operation)
	// Events receives what is changed, and what the target waits for, and is what the API shows.
	// It is the one of [target.Config], and stays the caller's. Default: none.
	Events *events.Log
	File   string // where Save writes; default: where its caller says
	// State is a folder that outlives the target, for notes on files that it created, so that
	// a start creates each once. Default: none; then a start creates no file of a namespace to
	// which the document gives an identity, and another has another identity.
	State  string
	Getenv func(string) string // default os.Getenv
	// Files are notes that gateways have in common, instead of State. Required with Group for namespaces in files that
	// have a size: without, each gateway creates them where they are missing. Default: none.
	Files FileNotes
	// Faults are failures of stores that gateways have in common. Default: a failure ends with the store.
	Faults Faults
	// Open opens what a namespace exports, with sentences for the administrator;
	// default: by an [Opener]. Memory has to be in the pool.
	Open func(*config.Namespace, *memory.Pool) (backend.Store, []string, error)
	// RemoveImage removes an image that nobody has open, for [Erase]; default: rbd.Remove. It has no error
	// where there is none of the name.
	RemoveImage func(*config.RBD) error
	// Gateway is that of Target, where that is one of several; see ServeGroup. Default: it
	// serves all groups by itself.
	Gateway *target.Gateway
	// Probe finds what hosts are told of a namespace of a group that another target serves;
	// default: ProbeStore. One that keeps records answers sooner.
	Probe func(*config.Namespace) (Probed, error)
	// Keeper keeps the reservations of a namespace for the targets that serve it. It is asked anew
	// whenever something of the namespace changes. Default: none, and with Gateway hosts cannot reserve.
	Keeper func(nvmeof.NQN, *target.NamespaceConfig) target.ReservationKeeper
	// Permit says with an error that the process may not read a file that a change names, or not
	// write it either, however its permissions are: it has confined itself. Default: it may.
	Permit func(path string, written bool) error
	// Moved is what another Manager was, in a process that has given it up: this one goes on
	// with its document, its memory and, once it was applied, by Adopt, with its hosts. Default: none.
	Moved *Moved
	// Group has the subsystems and referrals, which the target then has in common with other
	// gateways. Default: they are the target's own.
	Group Group
	// Gateways decide who serves what of it. Required with Group by the API alone.
	Gateways Gateways
	// TakeOver is called by the API for a process that wants to go on with the hosts of this one,
	// and listens at a unix socket. It returns once it has begun to talk to it. Default: it is
	// refused.
	TakeOver func(socket string) error
}

// A Manager makes a target what a document says. Its methods may be called from
// any goroutine.
type Manager struct {
	cfg     Config
	log     *zap.Logger
	target  *target.Target
	started time.Time
	context context.Context // ends with Close
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // those that wait for stores and devices; begun under mu

	watchers     sync.WaitGroup      // of listeners
	opening      *semaphore.Weighted // turns of those who open stores without mu
	removals     sync.WaitGroup      // those that go on, see remove; begun under mu
	leaveTimeout time.Duration       // constant, as the next five

	startTimeout, changeTimeout, erasedTime, firstWait, stillFor time.Duration

	followers followers // calls that wait for events

	parts atomic.Pointer[map[int]int] // listeners of the target that belong to wildcards, whose identifiers they lead to; set with mu held

	gauge    gauge
	requests requests
	refusals refusals
	handed   atomic.Bool // another process has the target: see Export

	mu       sync.Mutex // one change at a time; guards what follows
	closed   bool
	doc      *config.Document // does not change: a change makes another
	shared   *config.Document // what the group's document says, of revision
	revision int64            // 0: there is none yet
	behind   error            // why the target is not what that says; nil: it is
	lost     bool             // the group has no document any more
	// denied are the subsystems in which hosts may have more under way than they may, with the namespaces in
	// which it is known that it does not end: see Enforce.
	denied    map[nvmeof.NQN][]capsule.NSID
	saved     *config.Document     // what File said when it was last read or written
	listeners map[int]*listening   // by their identifiers in the target
	wildcards map[int]*wildcard    // by their identifiers in the document
	named     map[int]bool         // identifiers of listeners of the document, or of the one that a change makes
	exposed   map[nvmeof.NQN][]int // listeners of the document on which subsystems are; none: all
	devices   map[string]*heldDevice
	closings  map[string]*heldDevice // that are being closed
	stores    stores
	waiting   map[namespaceKey]*wait
	astray    astray // as a start has found them
	keyless   map[hostKey]*keyWait
	foreign   map[namespaceKey]*foreign
	releases  map[<-chan struct{}]bool // of groups that are under way; see closeFreed
	erasures  map[*erasure]struct{}
	turns     map[capsule.ANAGroup]*sync.Mutex // of those who close what a group exports; taken before mu
	probed    map[namespaceKey]*Probed         // of namespaces that are, or were, foreign
	leaving   map[*leaving]struct{}
	late      bool     // the change under way has waited for a removal as long as it may
	doubts    []string // about files of keys that it has read
}

// A namespaceKey says which namespace of which subsystem.
type namespaceKey struct {
	nqn  nvmeof.NQN
	nsid int
}

// New returns a Manager of a target that does nothing yet. It panics without what Config requires.
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
		cfg.Open = new(Opener).Open
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
	m.stores.came = m.came
	m.stores.awaited = func(key storeKey, as *config.Namespace) bool { _, awaited := awaits(m, key, as); return awaited }
	m.doc, m.shared = new(config.Document), new(config.Document)
	m.doc.TakeSettings(cfg.Settings)
	m.saved = cfg.Settings
	if cfg.Moved != nil {
		m.saved = cfg.Moved.Saved
		m.stores.goOn(cfg.Moved)
	}
	m.context, m.cancel = context.WithCancel(context.Background())
	return m
}

// Document describes the target as it is, including what it still waits for.
func (m *Manager) Document() *config.Document { return m.present().Clone() }

// Present is [Manager.Document] without a copy: the caller must not change it.
func Present(m *Manager) *config.Document { return m.present() }

// present is Present.
func (m *Manager) present() *config.Document {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doc
}

// Close ends the target, of which hosts are notified, and then closes devices and stores. It waits
// for a change that is being made. For the first file system that hangs while a file is saved or
// closed it waits for 5 s, and less for others, whose files are left as they are. It waits for
// commands of hosts until stores have finished them, however long that takes; these are logged, and
// [target.Target.Unfinished] lists them.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.stores.begin(m.changeTimeout)
	if err := saveRecords(m); err != nil {
		m.log.Warn("what hosts have set is in no file that the next start can read", zap.Error(err))
	}
	beginClose(m)
	m.mu.Unlock()
	return finish(m)
}

// beginClose lets no change begin any more. Called with mu held.
func beginClose(m *Manager) {
	m.closed = true
	m.stores.begin(m.startTimeout)
	m.stores.setRecordTime(0)
	m.cancel()
}

// finish ends what is left, after beginClose.
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

// closeTarget closes the target, and logs what that waits for.
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
			m.log.Warn("stopping: a store hangs, and the target waits for commands that it has", zap.Strings("waits_for_store_of", names),
				zap.String("remedy", "see what is wrong with what is below the store"))
			before = names
		}
	}
}

// subsystem finds one in the target.
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
