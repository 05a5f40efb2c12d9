package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	faultPrefix = "fault/"
	// faultVersion is the version of the notes of failures.
	faultVersion = 1
	// faultsEvery is the interval at which a gateway compares its stores with them.
	faultsEvery = 500 * time.Millisecond
	// maxWhy is the greatest length of a reason, in bytes.
	maxWhy = 4 << 10
)

// faults are the failures of stores that the gateways share. It implements [control.Faults].
type faults struct{ gateway *Gateway }

// A storedFault is the value of a failure in the store.
type storedFault struct {
	Version int `json:"version"`
	control.Fault
}

func faultKey(p config.Path) string { return keyOfPath(faultPrefix, p) }

// All implements [control.Faults]. A note is found by its key, so that a damaged one concerns its own path alone.
func (f *faults) All(ctx context.Context) (func(config.Path) (control.Fault, error), error) {
	all, err := f.gateway.store.Get(ctx, faultPrefix)
	if err != nil {
		return nil, err
	}
	noted := make(map[string][]byte, len(all.Entries))
	for _, e := range all.Entries {
		noted[e.Key] = e.Value
	}
	return func(p config.Path) (control.Fault, error) {
		value, found := noted[faultKey(p)]
		if !found {
			return control.Fault{}, nil
		}
		return readFault(p, value)
	}, nil
}

// readFault decodes the note of a path's failure. A note of a later version is a failure, too.
func readFault(p config.Path, value []byte) (control.Fault, error) {
	var s storedFault
	err := json.Unmarshal(value, &s)
	if err == nil && (s.Version < 1 || s.Path != p) { // it must not be taken for a note without a failure
		err = errors.New("the value was not written by a gateway")
	}
	if err != nil {
		return control.Fault{}, fmt.Errorf("the key %s of the group's store, which records that %s has failed, is damaged: %w; check the data, then run "+
			"nvmeof namespace clear-fault at any gateway", faultKey(p), p, err)
	}
	return s.Fault, nil
}

// Add implements [control.Faults].
func (f *faults) Add(ctx context.Context, p config.Path, why string) error {
	value, err := json.Marshal(storedFault{faultVersion, control.Fault{Path: p, Gateway: f.gateway.name,
		Time: time.Now().UTC().Truncate(time.Second), Why: why[:min(len(why), maxWhy)]}})
	if err != nil {
		return err
	}
	key := faultKey(p)
	_, err = f.gateway.store.Txn(ctx, state.Txn{If: []state.Compare{{Key: key}}, Then: []state.Op{{Key: key, Value: value}}})
	return err
}

// Clear implements [control.Faults].
func (f *faults) Clear(ctx context.Context, p config.Path) (had bool, err error) {
	key := faultKey(p)
	all, err := f.gateway.store.Get(ctx, key)
	if err != nil || len(all.Entries) == 0 {
		return false, err
	}
	r, err := f.gateway.store.Txn(ctx, dropNote(key, all.Entries[0].Revision))
	if err == nil && !r.Done {
		err = errFaster
	}
	return true, err
}

// follow compares the gateway's stores with the shared failures, until ctx ends.
func (f *faults) follow(ctx context.Context) {
	every := time.NewTicker(faultsEvery)
	defer every.Stop()
	said := ""
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		err := control.FollowFaults(ctx, f.gateway.manager)
		switch {
		case err == nil || errors.Is(err, state.ErrUnavailable):
			said = ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			f.gateway.cfg.Log.Error("cannot read or write the record of failed stores in the group's store", zap.Error(err))
		}
	}
}
