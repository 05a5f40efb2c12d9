package gateway

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
)

// TestStats tests the statistics of a gateway.
func TestStats(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(5, 1))))
	a := start(t, store.Open(time.Second), "gw1", 5)
	if _, err := a.m.Apply(document(t), control.Options{}); err != nil {
		t.Fatal(err)
	}
	a.until(t, "it serves all", func(s *control.GroupStatus) bool {
		return serves(s, "gw1") == 4 && !slices.ContainsFunc(s.Groups, func(g control.ANAStatus) bool { return !g.Served }) &&
			a.Stats().Takeovers["free"].Count() == 4 // which it counts after it serves them
	})
	a.alarm(group.Alarm{Kind: group.AlarmRefused, Text: "x"})
	a.alarm(group.Alarm{Kind: group.AlarmRefused, Text: "x"})
	s := a.Stats()
	if s.Members["alive"] != 1 || len(s.Members) != len(states) || s.Alarms["takeover-refused"] != 1 || s.Refused != 2 || s.Current == 0 {
		t.Errorf("%+v", s)
	}
	if len(s.Groups) != 4 || !s.Leased || s.Lease <= 0 || s.StoreAge > 5*time.Second ||
		slices.ContainsFunc(s.Groups, func(g metrics.GatewayGroup) bool { return !g.Owned || !g.Served || !g.Unfenced || g.Epoch == 0 }) {
		t.Errorf("%+v", s)
	}
	if n := s.Takeovers["dead"].Count(); n != 0 {
		t.Errorf("%d takeovers from the dead", n)
	}
	if s.Requests[metrics.StoreRequest{Operation: "get", Result: "ok"}].Count() == 0 {
		t.Errorf("%v", s.Requests)
	}
	a.counts.asked("txn", 0, state.ErrUnknown)
	a.counts.asked("get", 0, state.ErrUnavailable)
	for _, r := range []metrics.StoreRequest{{Operation: "txn", Result: "unknown"}, {Operation: "get", Result: "failed"}} {
		if l := a.Stats().Requests[r]; l == nil || l.Count() != 1 {
			t.Errorf("%v", r)
		}
	}
}
