package gateway

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// keepers are the keepers of all namespaces that the gateway knows. A record is named after the UUID of its
// namespace, and stays when the namespace is removed: one that is added again has its reservations.
type keepers struct {
	gateway *Gateway
	turns   chan struct{} // limits the calls under way: thousands would delay the gateway's heartbeat

	mu         sync.Mutex                          // guards what follows
	all        map[string]*keeper                  // by the key of the record
	fresh      map[*keeper]bool                    // those whose namespaces the document may not have yet
	prefetched map[group.ID]map[string]state.Entry // records that were read ahead for all namespaces of a group
	seen       map[string]state.Revision           // of the records that the target knows
}

func newKeepers(g *Gateway) *keepers {
	return &keepers{gateway: g, turns: make(chan struct{}, 8), all: map[string]*keeper{}, fresh: map[*keeper]bool{}, prefetched: map[group.ID]map[string]state.Entry{}, seen: map[string]state.Revision{}}
}

// keeper returns the keeper of a namespace. It is the Keeper of [control.Config].
func (ks *keepers) keeper(nqn nvmeof.NQN, c *target.NamespaceConfig) target.ReservationKeeper {
	key := group.RecordKey(uuid.UUID(c.UUID).String())
	ks.mu.Lock()
	defer ks.mu.Unlock()
	k := ks.all[key]
	if k == nil || k.nqn != nqn || k.nsid != c.NSID {
		k = &keeper{of: ks, nqn: nqn, nsid: c.NSID, key: key}
		ks.all[key] = k
	}
	ks.fresh[k] = true
	if before := k.group.Swap(uint32(cmp.Or(c.Group, 1))); before != k.group.Load() {
		ks.late(k)
	}
	return k
}

// late discards a record that was read ahead, so that it is read again: the namespace was in another ANA
// group then, whose owner may have changed it since. Called with mu held.
func (ks *keepers) late(k *keeper) {
	for _, all := range ks.prefetched {
		delete(all, k.key)
	}
}

// reload makes the target read the reservations of a namespace again that it serves.
func (ks *keepers) reload(k *keeper) {
	go func() { // ends when the target has read them
		if err := control.ReloadNamespace(ks.gateway.manager, k.nqn, int(k.nsid)); err != nil {
			ks.gateway.cfg.Log.Error("cannot read reservations that another gateway has changed", zap.String("subsystem", string(k.nqn)),
				zap.Uint32("nsid", uint32(k.nsid)), zap.Error(err))
		}
	}()
}

// forget removes keepers of namespaces that the document no longer has, if there are more keepers than namespaces.
func (ks *keepers) forget(doc *config.Document) {
	type name struct {
		nqn  nvmeof.NQN
		nsid int
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	count := 0
	for _, s := range doc.Subsystems {
		count += len(s.Namespaces)
	}
	if len(ks.all) <= count { // few or none are unused
		clear(ks.fresh)
		return
	}
	there := make(map[name]bool, count)
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			there[name{s.NQN, n.NSID}] = true
		}
	}
	for key, k := range ks.all {
		if !there[name{k.nqn, int(k.nsid)}] && !ks.fresh[k] {
			delete(ks.all, key)
		}
	}
	clear(ks.fresh)
}

func (ks *keepers) store() state.Store { return ks.gateway.store }

func (ks *keepers) hold(id group.ID) (group.Hold, bool) {
	run := ks.gateway.run.Load()
	if run == nil {
		return group.Hold{}, false
	}
	return run.Hold(id)
}

// get reads a record. Its revision is 0 if there is none.
func (ks *keepers) get(ctx context.Context, key string) (state.Entry, error) {
	all, err := ks.store().Get(ctx, key)
	if err != nil || len(all.Entries) == 0 {
		return state.Entry{Key: key}, err
	}
	return all.Entries[0], nil
}

// read returns a record that was read ahead, or else reads it.
func (ks *keepers) read(ctx context.Context, id group.ID, key string) (state.Entry, error) {
	ks.mu.Lock()
	e, known := ks.prefetched[id][key]
	ks.mu.Unlock()
	if known {
		return e, nil
	}
	return ks.get(ctx, key)
}

// readAhead reads the records of all namespaces of a group that the gateway is about to serve, at once,
// since there may be thousands. They are kept until done is called.
func (ks *keepers) readAhead(ctx context.Context, id group.ID) (done func(), err error) {
	all, err := ks.store().Get(ctx, group.RecordPrefix)
	if err != nil {
		return nil, err
	}
	byKey := make(map[string]state.Entry, len(all.Entries))
	for _, e := range all.Entries {
		byKey[e.Key] = e
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for key := range byKey {
		if k := ks.all[key]; k == nil || group.ID(k.group.Load()) != id {
			delete(byKey, key)
		}
	}
	for key, k := range ks.all {
		if _, there := byKey[key]; !there && group.ID(k.group.Load()) == id {
			byKey[key] = state.Entry{Key: key}
		}
	}
	ks.prefetched[id] = byKey
	return func() {
		ks.mu.Lock()
		defer ks.mu.Unlock()
		delete(ks.prefetched, id)
	}, nil
}

// own notes a change of a record by this gateway itself.
func (ks *keepers) own(key string, r state.Revision) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.seen[key] = max(ks.seen[key], r)
}

// noticePause is the shortest interval between two reads of all records.
const noticePause = 200 * time.Millisecond

// notice notifies the target of changes that other gateways make, until ctx ends. Records that the first
// read finds are not changes.
func (ks *keepers) notice(ctx context.Context) {
	first := true
	_ = ks.store().Watch(ctx, group.RecordPrefix, func() {
		for done := false; !done && ctx.Err() == nil; {
			all, err := ks.store().Get(ctx, group.RecordPrefix)
			if done = err == nil; done {
				ks.changed(all, first)
				first = false
			}
			select {
			case <-ctx.Done():
			case <-time.After(noticePause):
			}
		}
	})
}

// any reports whether the group has reservations.
func (ks *keepers) any() bool {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return len(ks.seen) > 0
}

// changed tells the target of records whose revision has grown. A record that was put by hand into an object of Ceph may
// have one that no transaction has had: later changes would seem to be older.
func (ks *keepers) changed(all state.Snapshot, first bool) {
	for _, e := range all.Entries {
		at := e.Revision
		if at > all.Revision {
			at = 0
		}
		ks.mu.Lock()
		k, news := ks.all[e.Key], at > ks.seen[e.Key]
		ks.seen[e.Key] = max(ks.seen[e.Key], at)
		ks.mu.Unlock()
		if first || !news || k == nil {
			continue
		}
		r, err := group.ReadRecord(e)
		if err == nil {
			err = ks.gateway.owned.ReservationsChanged(k.nqn, k.nsid, r.State)
		}
		if err != nil {
			ks.gateway.cfg.Log.Warn("cannot notify hosts of a reservation that another gateway has changed",
				zap.String("subsystem", string(k.nqn)), zap.Uint32("nsid", uint32(k.nsid)), zap.Error(err))
		}
	}
}
