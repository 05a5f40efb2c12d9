package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"

	"github.com/nvmeof-go/nvmeof/capsule"
)

const (
	// recordTime is how long a change of a reservation may take, and reading one.
	recordTime = 8 * time.Second
	// recordTries is how often a change begins again since what was known of the record is not so.
	recordTries = 4
	// sessionPause is between two looks whether the gateway's session is known.
	sessionPause = 50 * time.Millisecond
)

// errNotHeld is that the gateway does not own the namespace's ANA group, as far as it knows.
var errNotHeld = errors.New("reservations: another gateway owns the ANA group of the namespace by now")

// A keeper keeps the reservations of a namespace in the group's store. The target has one call
// under way at a time, so that what follows group belongs to that.
type keeper struct {
	of   *keepers
	nqn  nvmeof.NQN
	nsid capsule.NSID
	key  string // of the record

	group atomic.Uint32 // ANA group of the namespace

	epoch  uint64      // in which the target has loaded it
	last   state.Entry // what the store has
	unsure bool        // it may have something else: it is read before the next change
	tried  [][]byte    // which of these it may be: changes of whose outcome nothing is known
}

// maxTried is how many changes may be unknown, as while the store is away.
const maxTried = 64

// Load implements [target.ReservationKeeper].
func (k *keeper) Load(answer func([]byte, error)) {
	k.call(func(ctx context.Context) { answer(k.load(ctx)) })
}

// call does what waits for the store.
func (k *keeper) call(do func(context.Context)) {
	go func() { // ends in recordTime
		ctx, cancel := context.WithTimeout(context.Background(), recordTime)
		defer cancel()
		select {
		case k.of.turns <- struct{}{}:
			defer func() { <-k.of.turns }()
		case <-ctx.Done():
		}
		do(ctx)
	}()
}

// load reads what the owner before has kept. In another session nothing is left of what does not
// survive a power loss.
func (k *keeper) load(ctx context.Context) ([]byte, error) {
	h, ok := k.of.hold(k.id())
	if !ok {
		return nil, errNotHeld
	}
	var err error
	if k.last, err = k.of.read(ctx, k.id(), k.key); err != nil {
		return nil, fmt.Errorf("reservations in the group's store: %w", err)
	}
	k.epoch, k.unsure, k.tried = h.Epoch, false, nil
	if k.last.Revision == 0 {
		return nil, nil
	}
	r, err := group.ReadRecord(k.last)
	if err != nil {
		return nil, err
	}
	if r.Session != h.Session {
		if h, err = k.inSession(ctx); err != nil {
			return nil, err
		}
	}
	if r.Session != h.Session {
		return target.LastingReservations(r.State)
	}
	return r.State, nil
}

// Keep implements [target.ReservationKeeper].
func (k *keeper) Keep(record []byte, answer func(error)) {
	k.call(func(ctx context.Context) { answer(k.keep(ctx, record)) })
}

// keep puts the record, if the gateway still owns the group in the epoch in which the target has
// loaded what it changes. Of a transaction whose outcome is not known nothing is left to be
// carried out once a later one was: both change the record from what it was before.
func (k *keeper) keep(ctx context.Context, record []byte) error {
	for range recordTries {
		h, err := k.inSession(ctx)
		if err != nil {
			return err
		}
		if k.unsure {
			if err := k.refresh(ctx); err != nil {
				return err
			}
		}
		t, _, err := h.Change(k.last, record)
		if err != nil {
			return err
		}
		result, err := k.of.store().Txn(ctx, t)
		switch {
		case err != nil:
			k.unsure = true
			k.tried = append(k.tried[max(len(k.tried)-maxTried+1, 0):], t.Then[0].Value)
			return fmt.Errorf("reservations in the group's store: %w", err)
		case result.Done:
			k.last, k.tried = state.Entry{Key: k.key, Value: t.Then[0].Value, Revision: result.Revision}, nil
			k.of.own(k.key, result.Revision)
			return nil
		}
		before := k.last.Revision
		if err := k.refresh(ctx); err != nil {
			return err
		}
		if now, ok := k.of.hold(k.id()); k.last.Revision == before && (!ok || now.Guard[0] == h.Guard[0]) {
			return target.ErrNotOwner // it is the guard that does not hold
		}
	}
	return fmt.Errorf("reservations in the group's store: %w", state.ErrUnknown)
}

// refresh reads what the store has of the record after a change that may have been carried out. Where
// that is something else, as after another gateway has had the namespace in another ANA group, the
// target does not know the state.
func (k *keeper) refresh(ctx context.Context) error {
	e, err := k.of.get(ctx, k.key)
	if err != nil {
		k.unsure = true
		return fmt.Errorf("reservations in the group's store: %w", err)
	}
	if e.Revision != k.last.Revision && !slices.ContainsFunc(k.tried, func(b []byte) bool { return bytes.Equal(b, e.Value) }) {
		k.of.reload(k)
		return target.ErrNotOwner
	}
	k.last, k.unsure = e, false
	return nil
}

// Confirm implements [target.ReservationKeeper].
func (k *keeper) Confirm(answer func(error)) {
	k.call(func(ctx context.Context) { answer(k.confirm(ctx)) })
}

// confirm has the store say that the gateway owns the group: nobody else has changed the record then.
func (k *keeper) confirm(ctx context.Context) error {
	h, ok := k.of.hold(k.id())
	if !ok || h.Epoch != k.epoch {
		return target.ErrNotOwner
	}
	r, err := k.of.store().Txn(ctx, state.Txn{If: h.Guard})
	switch now, held := k.of.hold(k.id()); {
	case err != nil:
		return fmt.Errorf("reservations in the group's store: %w", err)
	case !r.Done && (!held || now.Guard[0] == h.Guard[0]):
		return target.ErrNotOwner
	case !r.Done:
		return errNotHeld // in this moment; asked again it is known
	}
	return nil
}

// inSession is the gateway's hold on the group of the namespace, once the session is known.
func (k *keeper) inSession(ctx context.Context) (group.Hold, error) {
	for {
		h, ok := k.of.hold(k.id())
		switch {
		case !ok || h.Epoch != k.epoch:
			return h, target.ErrNotOwner
		case h.Session != "":
			return h, nil
		}
		select {
		case <-ctx.Done():
			return h, errors.New("reservations: it is not known yet whether another gateway of the group has lived all the time")
		case <-time.After(sessionPause):
		}
	}
}

func (k *keeper) id() group.ID { return group.ID(k.group.Load()) }
