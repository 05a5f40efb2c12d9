package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Counts are the counters of the gateway. The zero value is ready for use.
type counts struct {
	current, applied atomic.Int64 // revisions of the configuration: in the store, and followed

	mu        sync.Mutex // guards what follows
	refused   uint64
	takeovers map[string]*target.Latencies
	requests  map[metrics.StoreRequest]*target.Latencies
	answered  time.Duration // when the store last answered, by package boottime
	accepted  time.Duration // when it last answered a transaction, likewise
}

// observe adds a duration to one of several histograms. Called with mu held.
func observe[K comparable](all *map[K]*target.Latencies, k K, d time.Duration) {
	if *all == nil {
		*all = map[K]*target.Latencies{}
	}
	if (*all)[k] == nil {
		(*all)[k] = new(target.Latencies)
	}
	(*all)[k].Observe(int64(d))
}

// copied returns copies of histograms. Called with mu held.
func copied[K comparable](all map[K]*target.Latencies) map[K]*target.Latencies {
	out := make(map[K]*target.Latencies, len(all))
	for k, l := range all {
		out[k] = new(target.Latencies)
		out[k].Add(l)
	}
	return out
}

// knows notes that the store has a revision of the configuration, unless a later one is known.
func (c *counts) knows(revision int64) {
	for {
		before := c.current.Load()
		if revision <= before || c.current.CompareAndSwap(before, revision) {
			return
		}
	}
}

// asked counts a request to the store.
func (c *counts) asked(operation string, began time.Duration, err error) {
	now, result := boottime.Now(), "ok"
	switch {
	case errors.Is(err, state.ErrUnknown):
		result = "unknown"
	case err != nil:
		result = "failed"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	observe(&c.requests, metrics.StoreRequest{Operation: operation, Result: result}, now-began)
	if err == nil && operation == "txn" {
		c.accepted = now
	}
	if err == nil {
		c.answered = now
	}
}

// A countedStore is a store whose requests are counted.
type countedStore struct {
	state.Store
	counts *counts
}

// Get implements [state.Store].
func (s countedStore) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	began := boottime.Now()
	out, err := s.Store.Get(ctx, prefix)
	s.counts.asked("get", began, err)
	return out, err
}

// Txn implements [state.Store].
func (s countedStore) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	began := boottime.Now()
	out, err := s.Store.Txn(ctx, t)
	s.counts.asked("txn", began, err)
	return out, err
}

// took handles the arrival of an ANA group.
func (g *Gateway) took(a group.Took) {
	g.counts.mu.Lock()
	observe(&g.counts.takeovers, string(a.Reason), a.Duration)
	g.counts.mu.Unlock()
	g.cfg.Log.Info("this gateway now serves an ANA group", zap.Uint16("group", uint16(a.Group)), zap.Uint64("epoch", a.Epoch),
		zap.String("reason", string(a.Reason)), zap.Duration("after", a.Duration))
	if g.cfg.Took != nil {
		g.cfg.Took(a)
	}
}

// Stats returns the statistics for [metrics.NewGateway].
func (g *Gateway) Stats() *metrics.GatewayStats {
	s, c := g.Status(), &g.counts
	out := &metrics.GatewayStats{
		Store: g.cfg.Document.Group.Store, Name: g.name, Members: map[string]int{}, Alarms: map[string]int{},
		Applied: c.applied.Load(), Current: c.current.Load(),
	}
	for _, state := range states {
		out.Members[state] = 0
	}
	for _, m := range s.Gateways {
		out.Members[m.State]++
	}
	for _, kind := range group.AlarmKinds() {
		out.Alarms[string(kind)] = 0
	}
	for _, a := range s.Alarms {
		out.Alarms[a.Kind]++
	}
	for _, x := range s.Groups {
		unfenced := x.Fence == config.FenceLease
		out.Leased = out.Leased || unfenced
		out.Groups = append(out.Groups, metrics.GatewayGroup{ID: x.Group, Epoch: x.Epoch, Owned: x.Owner != "", Served: x.Served, Unfenced: unfenced})
	}
	out.Lease = g.term.remaining()
	if g.run.Load() != nil { // then there is a manager
		for _, e := range control.Present(g.manager).Erasing {
			out.Erasing++
			if e.Why != "" {
				out.ErasingFailed++
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Refused, out.Takeovers, out.Requests, out.StoreAge = c.refused, copied(c.takeovers), copied(c.requests), boottime.Now()-c.answered
	out.StoreWriteAge = boottime.Now() - c.accepted
	for _, r := range group.Reasons() {
		if c.takeovers[string(r)] == nil {
			out.Takeovers[string(r)] = new(target.Latencies)
		}
	}
	return out
}
