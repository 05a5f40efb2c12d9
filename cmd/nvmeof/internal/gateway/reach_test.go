package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestReach: the storage is probed only if there is a reason, by one call at a time. After images were silent, or a probe
// has failed, the gateway reaches the storage only when a probe has succeeded.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answers, hangs := 0, error(nil), true
		full := errors.New("the pool executes writes")
		r := reach{held: heldWrites{ask: func(context.Context) error { return full }}, ask: func(ctx context.Context) error {
			asked++
			if hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			return answers
		}}
		want := func(what string, silent, stuck, reaches bool, calls int) {
			t.Helper()
			got := r.now(t.Context(), silent, stuck)
			synctest.Wait()
			if got != reaches || asked != calls {
				t.Errorf("%s: reaches %v, want %v; asked %d times, want %d", what, got, reaches, asked, calls)
			}
			time.Sleep(time.Second)
		}
		want("nothing is wrong", false, false, true, 0)
		want("all storage hangs, and another gateway says so first", false, true, false, 1)
		want("the call is under way", false, true, false, 1)
		want("others are well, and it has not answered", false, false, false, 1)
		hangs = false
		time.Sleep(awaitTime)
		want("the call has failed", false, false, false, 1)
		want("it answers", false, false, true, 2)
		want("then nobody asks", false, false, true, 2)
		want("another is stuck, and it has proved a moment ago", false, true, true, 2)
		time.Sleep(provenFor)
		want("it proves again", false, true, true, 3)
		want("an image is silent although the storage answers", true, false, false, 3)
		answers = errors.New("blocklisted")
		time.Sleep(provenFor)
		want("the image has gone to another gateway", false, false, false, 4)
		answers = nil
		want("it answers", false, false, true, 5)
		full = nil
		want("an image is silent since its pool is full", true, false, true, 5)
		want("it still is, and another gateway is stuck", true, true, true, 5)
		full = errors.New("the pool executes writes")
		time.Sleep(provenFor)
		want("the pool has room, and the image is silent", true, false, false, 6)
	})
}

// TestReachImages: the probe covers the pools of all groups, each in its cluster.
func TestReachImages(t *testing.T) {
	x, y := &fakeCluster{address: "b"}, &fakeCluster{address: "c"}
	c := known(map[string]*fakeCluster{"x": x, "y": y})
	doc := images(t, "x", "y", "x")
	doc.Subsystems[0].Namespaces[2].ANAGroup = 3
	doc.Subsystems[0].Namespaces[2].RBD.Image = "q/1"
	if _, err := c.connect(&config.Document{Group: config.Gateways{Store: "etcd://127.0.0.1:1/g"}}, "i", func() {}); err != nil {
		t.Fatal(err)
	}
	if err := c.reach(t.Context(), doc); err == nil {
		t.Error("a cluster of which the gateway is no client is reached")
	}
	if _, _, err := c.extend(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	if err := c.reach(t.Context(), doc); err != nil || !slices.Equal(x.reached, []string{"p", "q"}) || !slices.Equal(y.reached, []string{"p"}) {
		t.Errorf("%v, %v, %v", x.reached, y.reached, err)
	}
	y.refuses = errors.New("no")
	if err := c.reach(t.Context(), doc); !errors.Is(err, y.refuses) {
		t.Errorf("%v", err)
	}
}

// TestSilentImage: only images of groups that are served count.
func TestSilentImage(t *testing.T) {
	served := func(g capsule.ANAGroup) bool { return g == 1 }
	for _, test := range []struct {
		n    target.NamespaceMeasures
		want bool
	}{
		{target.NamespaceMeasures{Group: 1, Kind: "rbd", Silent: true}, true},
		{target.NamespaceMeasures{Group: 1, Kind: "rbd"}, false},
		{target.NamespaceMeasures{Group: 2, Kind: "rbd", Silent: true}, false},
		{target.NamespaceMeasures{Group: 1, Kind: "file", Silent: true}, false},
	} {
		m := &target.Measures{Subsystems: []target.SubsystemMeasures{{}, {Namespaces: []target.NamespaceMeasures{{}, test.n}}}}
		if got := silentImage(m, served); got != test.want {
			t.Errorf("%+v: %v", test.n, got)
		}
	}
}

// TestAnyStuck: gateways that are not alive, and this one, do not count.
func TestAnyStuck(t *testing.T) {
	of := func(name string, alive, stuck bool) group.GatewayStatus {
		return group.GatewayStatus{Member: group.Member{Name: name}, Beat: group.Beat{Stuck: stuck}, Alive: alive}
	}
	s := group.Status{Gateways: []group.GatewayStatus{of("a", true, true), of("b", false, true), of("c", true, false)}}
	if anyStuck(&s, "a") || !anyStuck(&s, "c") {
		t.Errorf("of a: %v; of c: %v", anyStuck(&s, "a"), anyStuck(&s, "c"))
	}
}

var _ cluster = (*rbd.Client)(nil)
