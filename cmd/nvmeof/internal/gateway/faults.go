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

// All implements [control.Faults]. The key says which path a note is of, also where the note does not.
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

// readFault reads the note of a path's failure. What a later version adds does not make it less of a failure.
func readFault(p config.Path, value []byte) (control.Fault, error) {
	var s storedFault
	err := json.Unmarshal(value, &s)
	if err == nil && (s.Version < 1 || s.Path != p) { // or the failure would be forgotten
		err = errors.New("no gateway has written what is there")
	}
	if err != nil {
		return control.Fault{}, fmt.Errorf("%s, the group's note that %s has failed, is damaged: %w; once it is known that what is written there is right, "+
			"nvmeof namespace clear-fault, at any gateway", faultKey(p), p, err)
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
