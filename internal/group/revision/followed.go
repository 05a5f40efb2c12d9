package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	// Err is why the value cannot be read, where it cannot: the gateway has said nothing until it does so again.
	Err error `json:"-"`
}

// Note says that a gateway has what a revision says, and that what this takes from hosts has ended
// there, but in some namespaces. It never goes back: who comes later under the same name begins with the
// present revision.
func Note(ctx context.Context, s state.Store, gateway string, number int64, but []string) error {
	key := FollowKey(gateway)
	value, err := json.Marshal(Follower{Version: version, Revision: number, But: but})
	if err != nil {
		return err
	}
	for {
		snapshot, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		if f := followers(snapshot)[gateway]; f.Revision > number || f.Revision == number && slices.Equal(f.But, but) {
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

// FollowKey is the key of what a gateway has said.
func FollowKey(gateway string) string { return followPrefix + gateway }

// Followers are what Note has written, by the names of gateways.
func Followers(ctx context.Context, s state.Store) (map[string]Follower, error) {
	snapshot, err := s.Get(ctx, followPrefix)
	if err != nil {
		return nil, err
	}
	return followers(snapshot), nil
}

func followers(s state.Snapshot) map[string]Follower {
	all := map[string]Follower{}
	for _, e := range s.Entries {
		var f Follower
		err := json.Unmarshal(e.Value, &f)
		if err == nil && f.Version < 1 {
			err = errors.New("no gateway has written what is there")
		}
		if err != nil {
			f = Follower{Err: fmt.Errorf("%s is damaged: %w", e.Key, err)}
		}
		all[strings.TrimPrefix(e.Key, followPrefix)] = f
	}
	return all
}

// lost is [ErrLost] where gateways have followed a later revision than base, which one without a pointer is made of: who of
// them has the latest is who can write it again.
func lost(ctx context.Context, s state.Store, base int64) error {
	all, err := Followers(ctx, s)
	if err != nil {
		return err
	}
	var name string
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if f := all[n]; name == "" || f.Revision > all[name].Revision {
			name = n
		}
	}
	if name == "" || base > 0 && all[name].Revision <= base { // for whoever knows nothing, one that cannot be read is one too
		return nil
	}
	return fmt.Errorf("%w: %s is missing, and gateway %s has followed revision %d: restore the key from a copy of the store, or, at a gateway that runs since and has that revision, "+
		"nvmeof target export and nvmeof target apply; if there is none, remove the keys %s* and apply the configuration anew", ErrLost, currentKey, name, all[name].Revision, followPrefix)
}
