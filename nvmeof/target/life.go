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

// A StateStore saves, through restarts of the target, the counters of a subsystem's
// lifetime and the write protection that hosts set. Its methods may block, and are called
// one at a time. One that is a [ReservationLocker] too is locked as long as the subsystem
// exists.
type StateStore = ReservationStore

// A StateFile saves them in the file of that name, as a [ReservationFile] does.
type StateFile string

// String is the file's name.
func (f StateFile) String() string { return string(f) }

func (f StateFile) file() kept.File { return kept.File{Name: string(f), What: "counters"} }

// Lock implements [ReservationLocker]. The lock file is never removed.
func (f StateFile) Lock() (unlock func() error, err error) { return f.file().Lock() }

// Load implements [StateStore]. A file that does not exist yet is no error.
func (f StateFile) Load() ([]byte, error) { return f.file().Load() }

// Save implements [StateStore].
func (f StateFile) Save(b []byte) error { return f.file().Save(b) }

// Check reports what is wrong with the file, if it is there, without locking it.
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // which is no error of a first start; the store says what to do
		err = &RecordError{Store: store, Err: fmt.Errorf("%w: restore the file from a backup, or remove it if no host relies on its write protection", err)}
	}
	return r, err
}

// savePeriod bounds what a crash loses of the counters, and how often the record is saved
// for them.
const savePeriod = time.Minute

// A lifetime has the record of a subsystem. The shards' counters start at zero; the sums
// of before are added where they are read.
type lifetime struct {
	firmware string                // of the target
	boot     string                // of the machine; empty: not known
	keeps    atomic.Bool           // there is a store; for shards
	begun    atomic.Pointer[begun] // likewise
	verifier atomic.Uint64         // the record's, once the store has it: 0 until then; likewise

	mu     sync.Mutex // held while the record is saved, which may block; guards what follows
	store  StateStore // nil: nothing survives the target
	unlock func() error
	awaits StateStore // a store that could not be read or locked yet; nil: none
	record life.Record
	saved  string    // the record as it was last saved, without the time; empty: what the store has is not known
	at     time.Time // when
	failed bool      // the last attempt failed, which was logged
	ended  bool
	// inherits says that what hosts wrote before namespaces are added may not be flushed: the target before has
	// not ended in order, or another process has given up its hosts to this one.
	inherits bool
	left     atomic.Int32 // namespaces that have left, or are about to, and are not flushed
}

// A begun is what a record had when it was loaded.
type begun struct {
	at     time.Time
	on     time.Duration
	cycles uint64       // including this one
	last   []life.Cycle // of them, in order
}

// begin loads the record, and saves that the target runs.
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

// beginLife loads the counters and counts one power cycle more. With wait a record that
// cannot be read is no error: awaitedLife tries again.
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

// beginLocked is beginLife with mu held. With serve a record that was read and cannot be saved, of a
// full disk, say, is used all the same: what hosts set and is not saved fails later, and
// counters are saved when they can be again.
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

// awaitedLife is the reason why the subsystem's record is not known, and so which of its
// namespaces are write protected; nil: it is known.
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

// moveLife changes the store of the record; nil is none. The record in the earlier one
// stays, as that of a target that has ended.
func (s *Subsystem) moveLife(store StateStore) error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return nil
	case l.awaits != nil: // there is no record to move: the new store's is used
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
	if err := next.begin(store); err != nil { // what is there must be a record
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
		left.Verifier = 0 // what happens from now on it does not know
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

// resume gives a namespace that is added its counters and protection of before, from this
// run of the target or another, also of another NSID, and the protection of the one that has left. It
// is called before shards read the namespace, and depart when it was removed, also while a store still
// has commands. What an earlier target wrote, and did not flush, is flushed at the end of this one.
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
		_ = s.saveLocked() // which logs an error: a crash does not end the protection
	}
}

// warnUnprotected says that what has the number of a namespace that hosts have write-protected is another
// one. It may be the same data, as a file that was copied to another machine without the extended attribute
// from which its UUID followed. Called with mu held.
func warnUnprotected(s *Subsystem, ns *storage.Namespace) {
	was, there := s.life.record.Namespaces[ns.ID]
	if !there || was.Protection != capsule.WriteProtected {
		return
	}
	s.target.log.Warn("another namespace than the one that hosts have write-protected has its number: it may be written",
		zap.String("subsystem", string(s.nqn)), zap.Uint32("nsid", uint32(ns.ID)), zap.Stringer("was", was.UUID), zap.Stringer("is", ns.UUID),
		zap.String("remedy", "if it has the data of the one before, give it that UUID: uuid in its configuration"))
}

func (s *Subsystem) depart(ns *storage.Namespace) {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.note(ns)
}

// countLate counts what has ended since depart, unless the namespace is back by now, or another one has
// its NSID.
func countLate(s *Subsystem, ns *storage.Namespace) {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	n, found := l.record.Namespaces[ns.ID]
	if !found || n.UUID != ns.UUID || s.table().Get(ns.ID) != nil {
		return
	}
	s.note(ns) // also what a command set as it was withdrawn
}

// save saves the record.
func (s *Subsystem) save() error {
	l := &s.life
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.saveLocked()
}

// SaveState saves counters and write protection of a subsystem again, where the [StateStore] has lost them. What could not be read
// of it yet stays: known is false then.
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
	if string(same) == l.saved && time.Since(l.at) < time.Hour { // an idle host causes no writes but for the time
		return nil
	}
	now.On = l.on()
	b, err := now.Encode()
	if err == nil {
		err = l.store.Save(b)
	}
	l.saved = "" // after an error it may have this one or the one before
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

// keepsState reports whether the settings of hosts that persist are saved.
func (s *Subsystem) keepsState() bool { return s.life.keeps.Load() }

func (t *Target) noteUnsaved(s *Subsystem, err error) {
	if err != nil {
		t.log.Trouble("counters not saved", zap.String("subsystem", string(s.nqn)), zap.Error(err))
	}
}

// on is for how long targets have run with the subsystem.
func (l *lifetime) on() time.Duration {
	b := l.begun.Load()
	return b.on + time.Since(b.at)
}

// endLife saves that the target has ended, in order if all that hosts wrote is durable, and lets
// another one use the store.
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

// saveStates saves the records that have changed, at intervals, until the target closes. A
// store of one that hangs delays it, and nothing else.
func (t *Target) saveStates() {
	for t.pause(savePeriod) {
		for _, s := range t.Subsystems() {
			if t.context.Err() != nil {
				return // each is saved as it ends
			}
			_ = s.save() // which logs an error, and tries again
		}
	}
}

// exportLife returns the record for another process that goes on with it. Called with mu held.
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

// continueLife goes on with the record of another process: hosts have seen no power cycle, and
// counters that nobody saves are not lost. No shard uses the namespaces yet.
func continueLife(s *Subsystem, r life.Record) {
	if s.discovery {
		return
	}
	l := &s.life
	l.mu.Lock()
	if l.awaits != nil { // what its store has is not known in either process
		l.mu.Unlock()
		return
	}
	r.Running = true
	if r.Verifier != l.record.Verifier {
		l.verifier.Store(0) // until it is saved
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
