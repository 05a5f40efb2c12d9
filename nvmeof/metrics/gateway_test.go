package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestGateway checks a scrape of a gateway.
func TestGateway(t *testing.T) {
	var took target.Latencies
	took.Observe(int64(2 * time.Second))
	stats := &GatewayStats{
		Store: "etcd://s/g", Name: "gw1", Members: map[string]int{"alive": 2, "ended": 0}, Alarms: map[string]int{"fence-fails": 1},
		Groups: []GatewayGroup{{ID: 3, Epoch: 7, Owned: true, Served: true}, {ID: 4, Unfenced: true}}, Refused: 5,
		Takeovers: map[string]*target.Latencies{"dead": &took, "free": new(target.Latencies)}, Requests: map[StoreRequest]*target.Latencies{{"txn", "unknown"}: &took},
		StoreAge: 1500 * time.Millisecond, StoreWriteAge: 20 * time.Second, Leased: true, Lease: 8 * time.Second, Applied: 11, Current: 12, Erasing: 3, ErasingFailed: 1,
	}
	scrape := func() string {
		r := httptest.NewRecorder()
		Handler(nil, NewGateway(func() *GatewayStats { return stats })).ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", Path, nil))
		return r.Body.String()
	}
	text := scrape()
	for _, want := range []string{
		`nvmf_gateway_info{gateway="gw1",store="etcd://s/g"} 1`,
		`nvmf_gateway_members{state="alive",store="etcd://s/g"} 2`,
		`nvmf_gateway_members{state="ended",store="etcd://s/g"} 0`,
		`nvmf_gateway_alarms{kind="fence-fails",store="etcd://s/g"} 1`,
		`nvmf_gateway_group_owned{group="4",store="etcd://s/g"} 0`,
		`nvmf_gateway_group_served{group="3",store="etcd://s/g"} 1`,
		`nvmf_gateway_group_epoch{group="3",store="etcd://s/g"} 7`,
		`nvmf_gateway_group_unfenced{group="4",store="etcd://s/g"} 1`,
		`nvmf_gateway_takeovers_total{reason="dead",store="etcd://s/g"} 1`,
		`nvmf_gateway_takeovers_total{reason="free",store="etcd://s/g"} 0`,
		`nvmf_gateway_takeover_duration_seconds_sum{reason="dead",store="etcd://s/g"} 2`,
		`nvmf_gateway_refused_takeovers_total{store="etcd://s/g"} 5`,
		`nvmf_gateway_store_request_duration_seconds_count{operation="txn",result="unknown",store="etcd://s/g"} 1`,
		`nvmf_gateway_store_age_seconds{store="etcd://s/g"} 1.5`,
		`nvmf_gateway_store_write_age_seconds{store="etcd://s/g"} 20`,
		`nvmf_gateway_lease_remaining_seconds{store="etcd://s/g"} 8`,
		`nvmf_gateway_config_applied_revision{store="etcd://s/g"} 11`,
		`nvmf_gateway_config_current_revision{store="etcd://s/g"} 12`,
		`nvmf_gateway_erasing{state="waiting",store="etcd://s/g"} 2`,
		`nvmf_gateway_erasing{state="failed",store="etcd://s/g"} 1`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if stats.Leased = false; strings.Contains(scrape(), "lease_remaining") {
		t.Error("a group without leases has one")
	}
}
