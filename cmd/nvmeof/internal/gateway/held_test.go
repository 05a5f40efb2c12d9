package gateway

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// twoImages returns clients of x and y, each with an image.
func twoImages(t *testing.T, x, y *fakeCluster) (*clients, *config.Document) {
	t.Helper()
	c, doc := known(map[string]*fakeCluster{"x": x, "y": y}), images(t, "x", "y")
	if _, err := c.connect(&config.Document{Group: config.Gateways{Store: "etcd://127.0.0.1:1/g"}}, "i", func() {}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.extend(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	return c, doc
}

// TestReachData: the probe covers the pools with the data of images, also of those that another gateway serves: if one of
// them answers nobody, no gateway may prove the opposite. Images that are removed are forgotten.
func TestReachData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := &fakeCluster{address: "b"}, &fakeCluster{address: "c", hangs: "data"}
		c, doc := twoImages(t, x, y)
		g := &Gateway{images: clients{}}
		cfg := control.Config{Probe: func(n *config.Namespace) (control.Probed, error) {
			return control.Probed{Pools: []string{"p", "data"}}, nil
		}}
		g.Complete(&cfg)
		if _, err := cfg.Probe(doc.Subsystems[0].Namespaces[1]); err != nil {
			t.Fatal(err)
		}
		c.pools.all = g.images.pools.all
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.reach(ctx, doc); !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(y.reached, []string{"p", "data"}) {
			t.Errorf("a data pool hangs: %v, reached %q", err, y.reached)
		}
		doc.Subsystems[0].Namespaces = doc.Subsystems[0].Namespaces[:1]
		if err := c.reach(t.Context(), doc); err != nil || len(c.pools.all) > 0 {
			t.Errorf("the image was removed: %v, %v", err, c.pools.all)
		}
	})
}

// TestHolding: images wait for pools that execute no writes only if each image that does not answer has such a pool, and
// all of the pool answers.
func TestHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := &fakeCluster{address: "b", holds: "p"}, &fakeCluster{address: "c"}
		c, doc := twoImages(t, x, y)
		m := target.Measures{Subsystems: []target.SubsystemMeasures{{NQN: doc.Subsystems[0].NQN, Namespaces: []target.NamespaceMeasures{
			{NSID: capsule.NSID(doc.Subsystems[0].Namespaces[0].NSID), Kind: "rbd", Silent: true},
			{NSID: capsule.NSID(doc.Subsystems[0].Namespaces[1].NSID), Kind: "rbd"},
		}}}}
		var said []string
		want := func(what string, holding bool, pools ...string) {
			t.Helper()
			said = nil
			ctx, cancel := context.WithTimeout(t.Context(), awaitTime)
			defer cancel()
			silent := silentImages(&m, func(capsule.ANAGroup) bool { return true }, doc)
			err := c.holding(ctx, silent, func(pool string) { said = append(said, pool) })
			if (err == nil) != holding || !slices.Equal(said, pools) {
				t.Errorf("%s: %v, said of %q", what, err, said)
			}
		}
		want("its pool is full", true, "p")
		m.Subsystems[0].Namespaces[1].Silent = true
		want("another one's is not", false)
		y.holds = "data"
		c.pools.learn(doc.Subsystems[0].Namespaces[1].RBD, []string{"p", "data"})
		want("its data pool is", true, "p", "data")
		y.hangs = "data"
		want("and does not answer", false)
		y.hangs = ""
		m.Subsystems[0].Namespaces[1].NSID = 99
		want("an image was removed", false)
		m.Subsystems[0].Namespaces = nil
		want("none is silent any more", false)
	})
}

// TestHeldWrites: a gateway whose images wait for a full pool is not stuck, as long as they do.
func TestHeldWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		answer, takes := error(nil), time.Second
		h := heldWrites{ask: func(ctx context.Context) error {
			asked.Add(1)
			select {
			case <-time.After(takes):
				return answer
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		want := func(what string, held bool, calls int64) {
			t.Helper()
			if got := h.now(t.Context()); got != held || asked.Load() != calls {
				t.Errorf("%s: %v, want %v; asked %d times, want %d", what, got, held, asked.Load(), calls)
			}
		}
		want("the pool is full", true, 1)
		want("it was a moment ago", true, 1)
		time.Sleep(provenFor)
		want("it still is", true, 2)
		time.Sleep(provenFor)
		takes = time.Hour
		want("then it does not answer", false, 3)
		want("nor later", false, 3)
		time.Sleep(awaitTime)
		want("the call has failed", false, 3)
		takes, answer = time.Second, errors.New("it executes writes")
		time.Sleep(provenFor)
		want("it has room, and images do not answer", false, 4)
		h.forget()
		answer = nil
		want("full again", true, 5)
	})
}
