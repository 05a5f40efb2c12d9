package gateway

import (
	"context"

	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// writtenBy returns the entries that a gateway has written about itself, except those of the group's engine.
func writtenBy(ctx context.Context, s state.Store, gateway string) (all []state.Entry, err error) {
	for _, key := range []string{revision.FollowKey(gateway), directoryPrefix + gateway} {
		found, err := s.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Entries {
			if e.Key == key { // and not only a prefix of it
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// forget deletes the entries of a gateway that was removed from the group. Entries that a new gateway of that name
// has written since they were read stay. Entries that stay because the store does not answer do no harm.
func forget(ctx context.Context, s state.Store, all []state.Entry) {
	for _, e := range all {
		_, _ = s.Txn(ctx, state.Txn{
			If:   []state.Compare{{Key: e.Key, Revision: e.Revision}},
			Then: []state.Op{{Key: e.Key, Delete: true}},
		})
	}
}
