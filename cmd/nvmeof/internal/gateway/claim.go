package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// claimPause is between two attempts.
const claimPause = 200 * time.Millisecond

// claim returns the gateway's slot, its range of controller identifiers. It tries until the store
// answers, or ctx ends.
func claim(ctx context.Context, s state.Store, name string) (int, error) {
	for {
		slot, err := tryClaim(ctx, s, name)
		if err == nil && slot > 0 || err != nil && !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable) {
			return slot, err
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err() // another gateway was faster in each attempt
			}
			return 0, fmt.Errorf("%w: check that the store is running and that its address is correct", err)
		case <-time.After(claimPause):
		}
	}
}

// tryClaim makes one attempt. It returns 0 if another gateway was faster.
func tryClaim(ctx context.Context, s state.Store, name string) (int, error) {
	all, err := s.Get(ctx, group.GroupPrefix)
	if err != nil {
		return 0, err
	}
	slot, t, err := group.ClaimSlot(all.Entries, name, 0)
	if err != nil || t == nil {
		return slot, err
	}
	r, err := s.Txn(ctx, *t)
	if err != nil || !r.Done {
		return 0, err
	}
	return slot, nil
}
