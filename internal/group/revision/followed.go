package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// followPrefix is that of what Note writes. It is not under Prefix, whose changes gateways follow.
const followPrefix = "follow/"

// A follower is the value of a gateway's key.
type follower struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`
}

// Note says that a gateway has what a revision says, and that what this takes from hosts has ended
// there. It never goes back: who comes later under the same name begins with the present revision.
func Note(ctx context.Context, s state.Store, gateway string, number int64) error {
	key := followPrefix + gateway
	value, err := json.Marshal(follower{version, number})
	if err != nil {
		return err
	}
	for {
		snapshot, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		if all, err := followers(snapshot); err == nil && all[gateway] >= number {
			return nil
		}
		txn := state.Txn{Then: []state.Op{{Key: key, Value: value}}, If: []state.Compare{{Key: key}}}
		for _, e := range snapshot.Entries {
			if e.Key == key { // and not one that begins with it
				txn.If[0].Revision = e.Revision
			}
		}
		switch result, err := s.Txn(ctx, txn); {
		case errors.Is(err, state.ErrUnknown): // what is there now says it
		case err != nil:
			return err
		case result.Done:
			return nil
		}
	}
}

// Followers are the revisions that Note has written, by the names of gateways.
func Followers(ctx context.Context, s state.Store) (map[string]int64, error) {
	snapshot, err := s.Get(ctx, followPrefix)
	if err != nil {
		return nil, err
	}
	return followers(snapshot)
}

func followers(s state.Snapshot) (map[string]int64, error) {
	all := map[string]int64{}
	for _, e := range s.Entries {
		var f follower
		if err := json.Unmarshal(e.Value, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		all[strings.TrimPrefix(e.Key, followPrefix)] = f.Revision
	}
	return all, nil
}
