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

// followPrefix is the prefix of the keys that Note writes. It is not under Prefix, whose changes gateways follow.
const followPrefix = "follow/"

// A Follower is what a gateway has reported about itself. It is the value of its key.
type Follower struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`
	// But are the namespaces in which the revision may not be in effect, as the caller names them.
	But []string `json:"but,omitempty"`
	// Err says why the value cannot be read, if so: then nothing is known of the gateway until it reports again.
	Err error `json:"-"`
}

// Note records that a gateway follows a revision, and that access which this revision takes from hosts has ended there,
// except in the namespaces but. The recorded revision never decreases: a gateway that later joins under the same name
// begins with the present revision.
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
			if e.Key == key { // not a longer key with the same prefix
				txn.If[0].Revision = e.Revision
			}
		}
		switch result, err := s.Txn(ctx, txn); {
		case errors.Is(err, state.ErrUnknown): // the next read shows the result
		case err != nil:
			return err
		case result.Done:
			return nil
		}
	}
}

// FollowKey returns the key of a gateway's report.
func FollowKey(gateway string) string { return followPrefix + gateway }

// Followers returns what Note has written, by the names of gateways.
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
			err = errors.New("the value was not written by a gateway")
		}
		if err != nil {
			f = Follower{Err: fmt.Errorf("%s is damaged: %w", e.Key, err)}
		}
		all[strings.TrimPrefix(e.Key, followPrefix)] = f
	}
	return all
}

// lost returns [ErrLost] if a gateway has followed a revision later than base, so that the pointer must have existed.
// The gateway with the latest revision can write it again.
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
	if name == "" || base > 0 && all[name].Revision <= base { // with base 0 even a follower that cannot be read is proof
		return nil
	}
	return fmt.Errorf("%w: the key %s is missing, but gateway %s has applied revision %d: restore the key from a backup of the store; or, at a gateway that has been running since and has that revision, run "+
		"nvmeof target export and nvmeof target apply; if there is none, remove the keys %s* and apply the configuration again", ErrLost, currentKey, name, all[name].Revision, followPrefix)
}
