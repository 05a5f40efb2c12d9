package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// removed deletes a value from the store, as an administrator may do with a damaged one.
func (c *cluster) removed(key string) {
	client := c.db.Join()
	c.db.Txn(c.wall(), client, state.Txn{Then: []state.Op{{Key: key, Delete: true}}}, callLimit)
	c.run(100 * time.Millisecond)
	c.db.Leave(client)
}

// TestDamagedRegistration: a gateway whose registration is damaged, even into JSON that no gateway has written,
// continues with what the storage fences, and names the value. When the value is restored it continues as before.
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

// TestRegistrationGone: the groups of a gateway whose registration was removed or replaced are served again. For that
// it must be fenced, and only the gateway itself knows its storage addresses.
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

// TestStrangeOwner: a key that is another spelling of an owner's key has no effect. The cluster checks that nothing is
// served twice.
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

// TestOwnerGone: a group whose owner's value was removed, or is an earlier one, as in a copy of the store, is served
// again in an epoch in which no gateway has served it yet.
func TestOwnerGone(t *testing.T) {
	for _, restored := range []bool{false, true} {
		t.Run(fmt.Sprint(restored), func(t *testing.T) {
			c := newCluster(t, fenced(1)...)
			a := c.start("gw1")
			c.wantSpread(20*time.Second, 1)
			copied := c.db.Copy()
			b := c.start("gw2")
			for _, g := range []*gateway{a, b} { // a moves it to b and back
				c.run(3 * time.Second) // until both are heard
				g.step(Command{Kind: DrainGateway, Gateway: g.name})
				c.until("the other has it", 20*time.Second, func() bool { return len(g.serving) == 0 && len(a.serving)+len(b.serving) == 1 })
				g.step(Command{Kind: UndrainGateway, Gateway: g.name})
				c.run(time.Second)
			}
			b.kill()
			if restored {
				c.db.Restore(copied)
			} else {
				c.removed(ownerKey(1))
			}
			c.run(time.Minute)
			if len(a.serving) != 1 {
				t.Errorf("it serves %v: %v", a.serving, a.log)
			}
		})
	}
}

// TestDamagedOwner: a group whose owner's value is damaged is served as before, and can move when the value is
// repaired. A value written by a later version is not damaged.
func TestDamagedOwner(t *testing.T) {
	for damage, want := range map[string]string{"damaged": "[1 1]", "{}": "[1 1]", `{"version":9}`: "[1 0]"} {
		t.Run(damage, func(t *testing.T) {
			c := newCluster(t, Group{ID: 1, Backend: Fenced}, Group{ID: 2, Backend: Lease})
			a, b := c.start("gw1"), c.start("gw2")
			c.wantSpread(20*time.Second, 1, 1)
			var id ID
			for id = range b.serving {
			}
			was := c.stored(ownerKey(id))
			c.outside(ownerKey(id), damage)
			c.run(30 * time.Second)
			if n := fmt.Sprint(c.spread()); n != want || !a.alarmed(AlarmUnreadable, ownerKey(id)) || !b.alarmed(AlarmUnreadable, "from a backup") {
				t.Errorf("they serve %s: %v", n, b.log)
			}
			c.outside(ownerKey(id), was)
			c.wantSpread(20*time.Second, 1, 1)
			b.step(Command{Kind: DrainGateway, Gateway: "gw2"})
			c.wantSpread(20*time.Second, 2, 0)
		})
	}
}

// TestSessionGone: if the session is damaged or was removed, a new gateway joins the session of the gateways that are
// present: reservations have not ended.
func TestSessionGone(t *testing.T) {
	for _, damage := range []string{"", "damaged", "{}"} {
		t.Run(damage, func(t *testing.T) {
			c := newCluster(t, fenced(2)...)
			c.start("gw1")
			c.wantSpread(20*time.Second, 2)
			was := c.stored(SessionKey)
			if damage == "" {
				c.removed(SessionKey)
			} else {
				c.outside(SessionKey, damage)
			}
			c.start("gw2")
			c.wantSpread(20*time.Second, 1, 1)
			if now := c.stored(SessionKey); now != was || !strings.Contains(c.stored(memberKey("gw2")), `"session":"gw1.1"`) {
				t.Errorf("the session is %s, and was %s; gw2 is %s", now, was, c.stored(memberKey("gw2")))
			}
		})
	}
}
