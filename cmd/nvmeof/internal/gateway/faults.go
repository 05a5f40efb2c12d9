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
	// faultVersion is that of the notes of failures.
	faultVersion = 1
	// faultsEvery is how often a gateway compares its stores with them.
	faultsEvery = 500 * time.Millisecond
	// maxWhy is the length of a reason.
	maxWhy = 4 << 10
)

// faults are the failures of stores that the gateways have in common, as [control.Faults].
type faults struct{ gateway *Gateway }

// A storedFault is the value of one.
type storedFault struct {
	Version int `json:"version"`
	control.Fault
}

func faultKey(p config.Path) string { return keyOfPath(faultPrefix, p) }

// All implements [control.Faults].
func (f *faults) All(ctx context.Context) (map[config.Path]control.Fault, error) {
	all, err := f.gateway.store.Get(ctx, faultPrefix)
	if err != nil {
		return nil, err
	}
	found := make(map[config.Path]control.Fault, len(all.Entries))
	for _, e := range all.Entries {
		var s storedFault
		if err := json.Unmarshal(e.Value, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		if s.Version < 1 || s.Path == "" { // or the failure would be forgotten
			return nil, fmt.Errorf("%s is damaged: no gateway has written what is there", e.Key)
		}
		found[s.Path] = s.Fault // what a later version adds does not make it less of a failure
	}
	return found, nil
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

// follow compares the gateway's stores with the failures that the group knows, until ctx ends.
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
			f.gateway.cfg.Log.Error("failures of stores, which the group notes", zap.Error(err))
		}
	}
}
