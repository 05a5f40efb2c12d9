package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// followPrefix is that of what Note writes. It is not under Prefix, whose changes gateways follow.
const followPrefix = "follow/"

// A Follower is what a gateway has said of itself. It is the value of its key.
type Follower struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`
	// But are the namespaces, as the caller names them, of which the revision may not be in force.
	But []string `json:"but,omitempty"`
}

// Note says that a gateway has what a revision says, and that what this takes from hosts has ended
// there, but in some namespaces. It never goes back: who comes later under the same name begins with the
// present revision.
func Note(ctx context.Context, s state.Store, gateway string, number int64, but []string) error {
	key := FollowKey(gateway)
	value, err := json.Marshal(Follower{version, number, but})
	if err != nil {
		return err
	}
	for {
		snapshot, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		if all, err := followers(snapshot); err == nil {
			if f := all[gateway]; f.Revision > number || f.Revision == number && slices.Equal(f.But, but) {
				return nil
			}
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

// FollowKey is the key of what a gateway has said.
func FollowKey(gateway string) string { return followPrefix + gateway }

// Followers are what Note has written, by the names of gateways.
func Followers(ctx context.Context, s state.Store) (map[string]Follower, error) {
	snapshot, err := s.Get(ctx, followPrefix)
	if err != nil {
		return nil, err
	}
	return followers(snapshot)
}

func followers(s state.Snapshot) (map[string]Follower, error) {
	all := map[string]Follower{}
	for _, e := range s.Entries {
		var f Follower
		if err := json.Unmarshal(e.Value, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		all[strings.TrimPrefix(e.Key, followPrefix)] = f
	}
	return all, nil
}
