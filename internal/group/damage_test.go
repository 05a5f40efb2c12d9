package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// removed takes a value out of the store, as an administrator may do with what is damaged.
func (c *cluster) removed(key string) {
	client := c.db.Join()
	c.db.Txn(c.wall(), client, state.Txn{Then: []state.Op{{Key: key, Delete: true}}}, callLimit)
	c.run(100 * time.Millisecond)
	c.db.Leave(client)
}

// TestDamagedRegistration: a gateway whose registration is damaged, also into JSON that no gateway has written, goes on
// with what the storage fences, says which value it is, and goes on as before when that is what it was.
func TestDamagedRegistration(t *testing.T) {
	for _, damage := range []string{" ", "damaged", "null", "{}", `{"version":1,"name":"gw1","in`, `{"version":0,"name":"gw1"}`, `{"version":9}`} {
		t.Run(damage, func(t *testing.T) {
			c := newCluster(t, fenced(2)...)
			a, b := c.start("gw1"), c.start("gw2")
			c.wantSpread(20*time.Second, 1, 1)
			key := memberKey("gw1")
			was := c.stored(key)
			c.outside(key, damage)
			c.run(10 * time.Second)
			if n := fmt.Sprint(c.spread()); n != "[1 1]" || c.stored(key) != damage || a.births != 1 {
				t.Errorf("they serve %s, incarnation %d of gw1, and the store has %s", n, a.births, c.stored(key))
			}
			for _, g := range []*gateway{a, b} {
				if !g.alarmed(AlarmUnreadable, key) {
					t.Errorf("%s does not name the value: %v", g.name, g.log)
				}
			}
			c.outside(key, was)
			c.run(5 * time.Second)
			if n := fmt.Sprint(c.spread()); n != "[1 1]" || c.stored(key) != was || a.births != 1 {
				t.Errorf("when that is mended they serve %s, incarnation %d of gw1, and the store has %s", n, a.births, c.stored(key))
			}
		})
	}
}

// TestRegistrationGone: what a gateway had whose registration somebody has removed, or replaced, is served again. It has
// to be fenced for that, and the gateway alone knows by what.
func TestRegistrationGone(t *testing.T) {
	const other = `{"version":1}`
	for _, how := range []string{"removed", other} {
		t.Run(how, func(t *testing.T) {
			c := newCluster(t, Group{ID: 1, Backend: Fenced}, Group{ID: 2, Backend: Fenced}, Group{ID: 33, Backend: Lease}, Group{ID: 34, Backend: Lease})
			c.start("gw1")
			c.start("gw2")
			c.wantSpread(20*time.Second, 2, 2)
			if how == other {
				c.outside(memberKey("gw1"), other)
			} else {
				c.removed(memberKey("gw1"))
			}
			c.until("gw1 has registered again", 5*time.Second, func() bool { return strings.Contains(c.stored(memberKey("gw1")), `"gw1.2"`) })
			c.wantSpread(40*time.Second, 2, 2)
			fenced := func(g *gateway) bool {
				return slices.ContainsFunc(g.log, func(a Action) bool {
					f, ok := a.(Fence)
					return ok && f.Incarnation == "gw1.1" && slices.Equal(f.Storage, []string{"client.gw1.1"})
				})
			}
			if !slices.ContainsFunc(c.all, fenced) {
				t.Error("nobody has fenced the incarnation of before")
			}
		})
	}
}

// TestStrangeOwner: a key that is another spelling of an owner's has no say. The cluster checks that nothing is served twice.
func TestStrangeOwner(t *testing.T) {
	c := newCluster(t, Group{ID: 33, Backend: Lease}, Group{ID: 34, Backend: Lease})
	a, b := c.start("gw1"), c.start("gw2")
	c.wantSpread(20*time.Second, 1, 1)
	for id := range a.serving {
		c.outside(fmt.Sprintf("%s%d", ownerPrefix, id), c.stored(ownerKey(67-id)))
	}
	from := len(b.log)
	c.run(5 * time.Second)
	if did := b.order(from); len(did) > 0 {
		t.Errorf("gw2 did %v", did)
	}
}
