package control

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// fakeGateways records orders.
type fakeGateways struct {
	orders  []Order
	err     error
	unheard atomic.Bool
}

func (g *fakeGateways) Status() GroupStatus {
	if g.unheard.Load() {
		return GroupStatus{Gateway: "gw1"}
	}
	return GroupStatus{Gateway: "gw1", Gateways: []Member{{Name: "gw1", State: "alive"}}}
}

func (g *fakeGateways) Order(_ context.Context, o Order) error {
	g.orders = append(g.orders, o)
	return g.err
}

// TestOrders: each order of an administrator is passed on.
func TestOrders(t *testing.T) {
	t.Parallel()
	g := new(fakeGateways)
	r := newAPIRig(t, func(c *Config) {
		c.Gateways = g
		c.Settings.Group.Store = "etcd://127.0.0.1/g"
	})
	for _, test := range []struct {
		method, path string
		body         any
		want         Order
	}{
		{"POST", "/v1/gateways/gw2/drain", nil, Order{DrainGateway, "gw2", 0}},
		{"POST", "/v1/gateways/gw2/resume", nil, Order{ResumeGateway, "gw2", 0}},
		{"POST", "/v1/gateways/gw2/fail", nil, Order{FailGateway, "gw2", 0}},
		{"DELETE", "/v1/gateways/gw2", nil, Order{RemoveGateway, "gw2", 0}},
		{"PUT", "/v1/group/ana-groups/7/gateway", moveTo{"gw2"}, Order{MoveGroup, "gw2", 7}},
	} {
		var body []byte
		if test.body != nil {
			body = config.JSON(test.body)
		}
		g.orders = nil
		if err := r.client.Do(t.Context(), test.method, test.path, nil, body, nil); err != nil || len(g.orders) != 1 || g.orders[0] != test.want {
			t.Errorf("%s %s: %v, %+v", test.method, test.path, err, g.orders)
		}
	}
	var s GroupStatus
	if err := r.client.Do(t.Context(), "GET", "/v1/group", nil, nil, &s); err != nil || s.Gateway != "gw1" || s.Store == "" {
		t.Errorf("%v, %+v", err, s)
	}
	g.unheard.Store(true)
	if _, err := group(r.Manager); !errors.Is(err, errUnheard) {
		t.Errorf("a gateway that has not read its group shows one: %v", err)
	}
	time.AfterFunc(200*time.Millisecond, func() { g.unheard.Store(false) })
	if err := r.client.Do(t.Context(), "GET", "/v1/group", nil, nil, &s); err != nil {
		t.Errorf("who asks a gateway that starts does not wait: %v", err)
	}
	g.err = errors.New("gateway gw2 is alive: stop it first")
	if err := r.client.Do(t.Context(), "DELETE", "/v1/gateways/gw2", nil, nil, nil); err == nil || err.Error() != g.err.Error() {
		t.Error(err)
	}
}

// TestOrdersAlone: a target without a group returns an error.
func TestOrdersAlone(t *testing.T) {
	r := newAPIRig(t)
	for _, path := range []string{"/v1/gateways/a/drain", "/v1/gateways/a/fail"} {
		if err := r.client.Do(t.Context(), "POST", path, nil, nil, nil); err == nil || err.Error() != errAlone.Error() {
			t.Error(err)
		}
	}
	if err := r.client.Do(t.Context(), "GET", "/v1/group", nil, nil, nil); err == nil {
		t.Error("it shows a group")
	}
}

// TestServedElsewhere: a namespace that another gateway serves is not reported as missing, and the error names that
// gateway if it is known.
func TestServedElsewhere(t *testing.T) {
	owners := &ownedGroups{}
	r := newGatewayRig(t, sharedFiles(t), func(c *Config) { c.Gateways = owners })
	r.set(shared)
	for _, test := range []struct {
		owner string
		want  string
	}{
		{"gw2", "namespace 2 of a: gateway gw2 serves it: run the command there"},
		{"gw1", "namespace 2 of a: this gateway is about to serve it"},
		{"", "namespace 2 of a: no gateway serves it at present"},
		{"unknown", "namespace 2 of a: another gateway serves it: its ANA group is 2"},
	} {
		owners.owner = test.owner
		for _, err := range []error{r.Pause("a", 2, 0), r.Resume("a", 2), r.ClearFault("a", 2)} {
			if _, status := classify(err); err == nil || status != http.StatusConflict || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("owned by %q: %v, want %s", test.owner, err, test.want)
			}
		}
	}
	r.cfg.Gateways = nil
	if err := r.Resume("a", 2); err == nil || !strings.Contains(err.Error(), "another target serves it") {
		t.Error(err)
	}
	if err := r.Resume("a", 4444); err == nil || err.Error() != "namespace 4444 does not exist; there is 1, 2, 3" {
		t.Error(err)
	}
}

// ownedGroups are gateways of which one owns ANA group 2.
type ownedGroups struct {
	fakeGateways
	owner string
}

func (g *ownedGroups) Status() GroupStatus {
	s := g.fakeGateways.Status()
	if g.owner != "unknown" {
		s.Groups = []ANAStatus{{Group: 2, Owner: g.owner}}
	}
	return s
}
