package target

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/kept"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
)

// A StateStore saves the counters of a subsystem's lifetime, and the write protection that hosts set, across
// restarts of the target. Its methods may block, and are called one at a time. If it is a [ReservationLocker] too,
// it is locked as long as the subsystem exists.
type StateStore = ReservationStore

// A StateFile saves the state in the file of that name, like a [ReservationFile].
type StateFile string

// String returns the file's name.
func (f StateFile) String() string { return string(f) }

func (f StateFile) file() kept.File { return kept.File{Name: string(f), What: "counters"} }

// Lock implements [ReservationLocker]. The lock file is never removed.
func (f StateFile) Lock() (unlock func() error, err error) { return f.file().Lock() }

// Load implements [StateStore]. It is no error if the file does not exist yet.
func (f StateFile) Load() ([]byte, error) { return f.file().Load() }

// Save implements [StateStore].
func (f StateFile) Save(b []byte) error { return f.file().Save(b) }

// Check reports whether the file is damaged, without locking it. It is no error if the file does not exist.
func (f StateFile) Check() error {
	_, err := loadLife(f)
	return err
}

func loadLife(store StateStore) (r life.Record, err error) {
	b, err := store.Load()
	if err == nil {
		if r, err = life.Decode(b); err != nil {
			if f, ok := store.(fmt.Stringer); ok {
				err = fmt.Errorf("in %v: %w", f, err)
			}
			err = fmt.Errorf("counters %w", err)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // not an error at the first start; the store's error says what to do
		err = &RecordError{Store: store, Err: fmt.Errorf("%w: restore the file from a backup, or remove it if no host relies on its write protection", err)}
	}
	return r, err
}

// savePeriod is the interval at which changed counters are saved. A crash loses that much of them.
const savePeriod = time.Minute

// A lifetime has the record of a subsystem. The shards' counters start at zero; the saved sums are added when they
// are read.
type lifetime struct {
	firmware string                // of the target
	boot     string                // of the machine; empty: unknown
	keeps    atomic.Bool           // there is a store; read by shards
	begun    atomic.Pointer[begun] // read by shards
	verifier atomic.Uint64         // the record's, but 0 until the store has it; read by shards

	mu     sync.Mutex // held while the record is saved, which may block; protects the fields below
	store  StateStore // nil: the record is not saved
	unlock func() error
	awaits StateStore // a store that could not be read or locked yet, or nil
	record life.Record
	saved  string    // the record as saved last, except the time; empty: the contents of the store are unknown
	at     time.Time // when it was saved
	failed bool      // the last attempt failed, and that was logged
	ended  bool
	// inherits means that data which hosts wrote before namespaces are added may not be flushed: the previous
	// target did not end in order, or another process has handed its hosts over to this one.
	inherits bool
	left     atomic.Int32 // number of namespaces that were or are being removed, and are not flushed
}

// begun has values of the record when it was loaded.
type begun struct {
	at     time.Time
	on     time.Duration
	cycles uint64       // number of power cycles, including this one
	last   []life.Cycle // the most recent power cycles, in order
}

// begin loads the record, and marks it as that of a running target.
func (l *lifetime) begin(store StateStore) (err error) {
	unlock := func() error { return nil }
	if locker, ok := store.(ReservationLocker); ok {
		if unlock, err = locker.Lock(); err != nil {
			return err
		}
	}
	var before life.Record
	if store != nil {
		if before, err = loadLife(store); err != nil {
			return errors.Join(err, unlock())
		}
	}
	var fresh [8]byte
	rand.Read(fresh[:]) // it never fails
	now := time.Now()
	l.store, l.unlock, l.inherits = store, unlock, before.Running
	l.record = before.Begin(now, l.firmware, l.boot, capsule.WriteVerifier(binary.LittleEndian.Uint64(fresh[:])))
	l.begun.Store(&begun{now, l.record.On, l.record.PowerCycles, l.record.Cycles})
	l.keeps.Store(store != nil)
	return nil
}

// beginLife loads the counters and counts a power cycle. With wait, a record that cannot be read is no error:
// awaitedLife tries again.
func (s *Subsystem) beginLife(store StateStore, wait bool) error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	l.firmware, l.boot = s.target.cfg.Firmware, s.target.cfg.Boot
	err := s.beginLocked(store, wait)
	if err != nil && wait {
		l.awaits = store
		err = l.begin(nil)
	}
	return err
}

// beginLocked is beginLife with mu held. With serve, a record that was read but cannot be saved (for example
// because the disk is full) is used anyway: settings of hosts that cannot be saved fail later, and counters are
// saved when that is possible again.
func (s *Subsystem) beginLocked(store StateStore, serve bool) error {
	l := &s.life
	if err := l.begin(store); err != nil {
		return err
	}
	before := l.record
	s.unsafe.Add(before.UnsafeShutdowns)
	s.errors.Add(before.Errors)
	if err := s.saveLocked(); err != nil && !serve {
		s.unsafe.Add(-before.UnsafeShutdowns)
		s.errors.Add(-before.Errors)
		return errors.Join(err, l.unlock(), l.begin(nil))
	}
	return nil
}

// awaitedLife retries to load a record that could not be loaded. It returns an error as long as that fails, since
// then it is unknown which namespaces are write protected.
func (s *Subsystem) awaitedLife() error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaits == nil || l.ended {
		return nil
	}
	if err := s.beginLocked(l.awaits, true); err != nil {
		return err
	}
	l.awaits = nil
	return nil
}

// moveLife changes the store of the record; nil means none. The record in the old store stays, as that of a target
// that has ended.
func (s *Subsystem) moveLife(store StateStore) error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return nil
	case l.awaits != nil: // there is no record to move: that of the new store is used
		if sameState(l.awaits, store) {
			return nil
		}
		err := s.beginLocked(store, false)
		if err == nil {
			l.awaits = nil
		}
		return err
	case sameState(l.store, store):
		return nil
	}
	next := lifetime{unlock: func() error { return nil }, boot: l.boot}
	if err := next.begin(store); err != nil { // the store may not contain anything but a record
		return err
	}
	before, unlock, saved := l.store, l.unlock, l.saved
	l.store, l.unlock, l.saved = store, next.unlock, ""
	l.keeps.Store(store != nil)
	if store == nil {
		l.verifier.Store(0)
	}
	err := s.saveLocked()
	if err != nil {
		l.store, l.unlock, l.saved = before, unlock, saved
		l.keeps.Store(before != nil)
		return errors.Join(err, next.unlock())
	}
	if before != nil {
		left := l.record
		left.Running, left.On = false, l.on()
		left.Verifier = 0 // the record does not cover what happens from now on
		if b, err := left.Encode(); err == nil {
			err = before.Save(b)
			s.target.noteUnsaved(s, err)
		}
	}
	return unlock()
}

func sameState(a, b StateStore) bool {
	return a == nil && b == nil || a != nil && b != nil && reflect.TypeOf(b).Comparable() && a == b
}

// refresh updates the record. Called with mu held.
func (s *Subsystem) refresh() {
	r := &s.life.record
	r.UnsafeShutdowns, r.Errors = s.unsafe.Load(), s.errors.Load()
	for ns := range s.table().All {
		s.note(ns)
	}
}

// note updates the record of one namespace. Called with mu held.
func (s *Subsystem) note(ns *storage.Namespace) {
	n := life.Namespace{UUID: ns.UUID, Protection: ns.Protection()}
	ns.AddTo(&n.Counts)
	s.life.record.Note(ns.ID, n)
}

// resume gives a namespace that is being added its earlier counters and protection, from this run of the target or
// an earlier one, even if its NSID was different, and the protection of the namespace that left its NSID. It is
// called before shards use the namespace. Its counterpart depart is called when the namespace is removed, even
// while a store still has commands. Data that an earlier target wrote and did not flush is flushed at the end of
// this one.
func (s *Subsystem) resume(ns *storage.Namespace, left departure) {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	n, found := l.record.Take(ns.ID, ns.UUID)
	if found {
		ns.Resume(n.Counts)
		ns.Protect(n.Protection)
	} else if left.namespace == nil {
		warnUnprotected(s, ns)
	}
	if l.inherits || l.left.Load() > 0 {
		ns.Volume.NoteWritten()
	}
	if left.namespace == nil || left.namespace.Protection() == capsule.WriteProtectNone || left.namespace.Identity == ns.Identity {
		return
	}
	ns.Protect(left.namespace.Protection())
	s.note(ns)
	if l.store != nil {
		_ = s.saveLocked() // errors are logged; after a crash the protection continues
	}
}

// warnUnprotected warns that another namespace has the NSID of one that hosts have write-protected. It may have
// the same data, as a file that was copied to another machine without the extended attribute from which its UUID
// is derived. Called with mu held.
func warnUnprotected(s *Subsystem, ns *storage.Namespace) {
	was, there := s.life.record.Namespaces[ns.ID]
	if !there || was.Protection != capsule.WriteProtected {
		return
	}
	s.target.log.Warn("hosts write-protected a namespace, but another namespace has its NSID now, and is writable",
		zap.String("subsystem", string(s.nqn)), zap.Uint32("nsid", uint32(ns.ID)), zap.Stringer("was", was.UUID), zap.Stringer("is", ns.UUID),
		zap.String("remedy", "if it has the data of the earlier one, set the earlier UUID in its configuration: uuid"))
}

func (s *Subsystem) depart(ns *storage.Namespace) {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.note(ns)
}

// countLate counts commands that have ended since depart, unless the namespace has returned, or another one has
// its NSID.
func countLate(s *Subsystem, ns *storage.Namespace) {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	n, found := l.record.Namespaces[ns.ID]
	if !found || n.UUID != ns.UUID || s.table().Get(ns.ID) != nil {
		return
	}
	s.note(ns) // includes what a command set while the namespace was being removed
}

// save saves the record.
func (s *Subsystem) save() error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.saveLocked()
}

// SaveState saves the counters and write protection of a subsystem again, after the [StateStore] has lost them. It
// returns false, and saves nothing, if the record could not be read yet.
func SaveState(s *Subsystem) (known bool, err error) {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaits != nil {
		return false, nil
	}
	l.saved = ""
	return true, s.saveLocked()
}

func (s *Subsystem) saveLocked() error {
	l := &s.life
	if l.store == nil || l.ended {
		return nil
	}
	s.refresh()
	now := l.record
	now.On = 0
	same, err := now.Encode()
	if err != nil {
		return err
	}
	if string(same) == l.saved && time.Since(l.at) < time.Hour { // the time alone is saved once an hour, so that an idle host causes no writes
		return nil
	}
	now.On = l.on()
	b, err := now.Encode()
	if err == nil {
		err = l.store.Save(b)
	}
	l.saved = "" // after an error the store may have this record or the previous one
	if err == nil {
		l.saved, l.at = string(same), time.Now()
		if l.boot != "" {
			l.verifier.Store(uint64(l.record.Verifier))
		}
	}
	if !l.failed {
		s.target.noteUnsaved(s, err)
	}
	l.failed = err != nil
	return err
}

// keepsState reports whether persistent settings of hosts are saved.
func (s *Subsystem) keepsState() bool { return s.life.keeps.Load() }

func (t *Target) noteUnsaved(s *Subsystem, err error) {
	if err != nil {
		t.log.Trouble("counters not saved", zap.String("subsystem", string(s.nqn)), zap.Error(err))
	}
}

// on returns how long targets have run with the subsystem.
func (l *lifetime) on() time.Duration {
	b := l.begun.Load()
	return b.on + time.Since(b.at)
}

// endLife saves that the target has ended, in order if all data that hosts wrote is durable, and unlocks the
// store.
func (s *Subsystem) endLife(durable bool) error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	l.record.Running = !durable
	err := s.saveLocked()
	l.ended = true
	return errors.Join(err, l.unlock())
}

// saveStates saves the records that have changed, at intervals, until the target closes. A store that hangs delays
// only this.
func (t *Target) saveStates() {
	for t.pause(savePeriod) {
		for _, s := range t.Subsystems() {
			if t.context.Err() != nil {
				return // each record is saved when its subsystem ends
			}
			_ = s.save() // errors are logged, and it is retried
		}
	}
}

// exportLife returns the record for another process that continues it. Called with mu held.
func exportLife(s *Subsystem) life.Record {
	l := &s.life
	if s.discovery {
		return life.Record{}
	}
	s.refresh()
	r := l.record
	r.On, r.Namespaces, r.Departed = l.on(), maps.Clone(r.Namespaces), slices.Clone(r.Departed)
	return r
}

// continueLife continues the record of another process: for hosts there was no power cycle, and counters that are
// not saved anywhere are not lost. No shard uses the namespaces yet.
func continueLife(s *Subsystem, r life.Record) {
	if s.discovery {
		return
	}
	l := &s.life
	l.mu.Lock()
	if l.awaits != nil { // the contents of its store are unknown in both processes
		l.mu.Unlock()
		return
	}
	r.Running = true
	if r.Verifier != l.record.Verifier {
		l.verifier.Store(0) // until the record is saved
	}
	if r.Namespaces == nil {
		r.Namespaces = make(map[capsule.NSID]life.Namespace)
	}
	l.record, l.saved, l.inherits = r, "", true
	l.begun.Store(&begun{time.Now(), r.On, r.PowerCycles, r.Cycles})
	s.unsafe.Store(r.UnsafeShutdowns)
	s.errors.Store(r.Errors)
	l.mu.Unlock()
	for ns := range s.table().All {
		s.resume(ns, departure{})
	}
}
