package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A silent store does not answer once it is down.
type silent struct {
	state.Store
	down atomic.Bool
}

func (s *silent) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	if s.down.Load() {
		<-ctx.Done()
		return state.Snapshot{}, ctx.Err()
	}
	return s.Store.Get(ctx, prefix)
}

func (s *silent) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	if s.down.Load() {
		<-ctx.Done()
		return state.Result{}, state.ErrUnknown
	}
	return s.Store.Txn(ctx, t)
}

// TestOrderWithoutStore: the error of an order says that the group's store does not answer.
func TestOrderWithoutStore(t *testing.T) {
	t.Parallel()
	s := &silent{Store: simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Second)}
	g := start(t, s, "gw1", 9)
	g.until(t, "it is there", func(s *control.GroupStatus) bool { return serves(s, "gw1") == 0 })
	s.down.Store(true)
	began := time.Now()
	err := g.Order(t.Context(), control.Order{Kind: control.DrainGateway, Gateway: "gw1"})
	if took := time.Since(began); !errors.As(err, new(*control.OrderError)) || took > 3*g.cfg.OrderTime {
		t.Errorf("%v after %v", err, took)
	}
	s.down.Store(false)
	if err := g.Order(t.Context(), control.Order{Kind: control.RemoveGateway, Gateway: "gw7"}); err == nil {
		t.Error("a gateway that there is not is removed")
	}
}
