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
	// recordTime is the time limit for reading and for changing a reservation.
	recordTime = 8 * time.Second
	// recordTries is the number of attempts of a change: one fails if the record is not as it was last known.
	recordTries = 4
	// sessionPause is the interval of checks whether the gateway's session is known.
	sessionPause = 50 * time.Millisecond
)

// errNotHeld says that the gateway does not own the namespace's ANA group, as far as it knows.
var errNotHeld = errors.New("reservations: another gateway now owns the namespace's ANA group")

// A keeper keeps the reservations of a namespace in the group's store. The target has one call
// under way at a time, and the fields after group belong to that.
type keeper struct {
	of   *keepers
	nqn  nvmeof.NQN
	nsid capsule.NSID
	key  string // of the record

	group atomic.Uint32 // ANA group of the namespace

	epoch  uint64      // in which the target has loaded it
	last   state.Entry // as the store has it, unless unsure
	unsure bool        // the store may have another one: it is read before the next change
	tried  [][]byte    // values of changes whose outcome is not known, one of which the store may have
}

// maxTried is the greatest number of values in tried, which grows while the store does not answer.
const maxTried = 64

// Load implements [target.ReservationKeeper].
func (k *keeper) Load(answer func([]byte, error)) {
	k.call(func(ctx context.Context) { answer(k.load(ctx)) })
}

// call calls do in a goroutine, since do waits for the store.
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

// load reads the record that the previous owner has written. In another session only the part that
// persists through power loss is left.
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

// keep writes the record, if the gateway still owns the group in the epoch in which the target has
// loaded the reservations. A transaction whose outcome is not known cannot be carried out any more
// once a later one was, since both compare the revision of the record.
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
			return target.ErrNotOwner // the record has not changed, so the guard does not hold
		}
	}
	return fmt.Errorf("reservations in the group's store: %w", state.ErrUnknown)
}

// refresh reads the record again after a change that may have been carried out. If it is neither the old
// one nor one of tried, the target does not know the state: for example, another gateway has served the
// namespace in another ANA group.
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

// confirm returns nil if the store says that the gateway owns the group, so that no other gateway has changed the record.
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
		return errNotHeld // ownership has changed just now: when called again, the hold is known
	}
	return nil
}

// inSession waits until the session is known, and returns the gateway's hold on the group of the namespace.
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
			return h, errors.New("reservations: it is not yet known whether a gateway of the group has been running all the time: reservations without persistence may have ended")
		case <-time.After(sessionPause):
		}
	}
}

func (k *keeper) id() group.ID { return group.ID(k.group.Load()) }
