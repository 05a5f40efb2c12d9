package group

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// callLimit is how long a gateway waits for the store.
const callLimit = time.Second

// A cluster consists of engines, a store, and the simplest possible target.
type cluster struct {
	t      *testing.T
	clock  time.Duration
	db     *simulated.Store
	all    []*gateway
	later  []due
	config []Group
	bare   bool // storage has no addresses
}

type due struct {
	at time.Duration
	do func()
}

// A gateway is an engine and its outstanding requests.
type gateway struct {
	*cluster
	*Engine
	name    string
	client  simulated.Client
	calls   map[simulated.Call]uint64 // tokens
	gets    map[simulated.Call]bool
	dead    bool
	births  int
	serving map[ID]uint64
	served  map[ID]uint64 // the latest epochs, of which the target accepts no earlier one
	log     []Action      // except those for the store
	stuck   bool          // drains do not end
	broken  bool          // it cannot serve
	noFence bool          // fences fail
	fencing int           // fences in progress
	fenced  int           // the most that were
	refuses error         // what the store answers to transactions, instead of executing them
	slow    time.Duration // time that it takes to serve each group, one after the other
	idle    time.Duration // when it has served all requested groups
	lease   time.Duration // end of its lease
}

func newCluster(t *testing.T, groups ...Group) *cluster {
	return &cluster{t: t, clock: time.Hour, db: simulated.New(rand.New(rand.NewPCG(1, 2))), config: groups}
}

func fenced(n int) (all []Group) {
	for i := range n {
		all = append(all, Group{ID: ID(i + 1), Backend: Fenced})
	}
	return all
}

func (c *cluster) wall() time.Time { return time.Unix(0, 0).Add(c.clock) }

func (c *cluster) after(d time.Duration, do func()) { c.later = append(c.later, due{c.clock + d, do}) }

// start starts a gateway, or restarts one.
func (c *cluster) start(name string, change ...func(*Config)) *gateway {
	cfg := Config{Name: name, Addresses: []string{name + ":4420"}}
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	g := &gateway{cluster: c, Engine: e, name: name, serving: map[ID]uint64{}, served: map[ID]uint64{}, calls: map[simulated.Call]uint64{}, gets: map[simulated.Call]bool{}}
	for _, o := range c.all {
		if o.name == name {
			g.births += o.births
		}
	}
	c.all = append(c.all, g)
	g.client = c.db.Join()
	c.db.Watch(c.wall(), g.client, GroupPrefix)
	g.step(Configure{c.config})
	g.begin()
	return g
}

func (g *gateway) begin() {
	g.births++
	inc := fmt.Sprintf("%s.%d", g.name, g.births)
	b := Begin{Incarnation: Incarnation(inc)}
	if !g.bare {
		b.Storage = []string{"client." + inc}
	}
	g.step(b)
}

func (g *gateway) kill() {
	g.dead = true
	g.db.Leave(g.client)
}

func (g *gateway) step(ev Event) {
	if g.dead {
		return
	}
	for _, a := range g.Step(g.clock, ev) {
		g.do(a)
	}
}

func (g *gateway) do(a Action) {
	switch a := a.(type) {
	case Get:
		id := g.db.Get(g.wall(), g.client, a.Prefix, callLimit)
		g.calls[id], g.gets[id] = a.Token, true
		return
	case Txn:
		if g.refuses != nil {
			g.after(5*time.Millisecond, func() { g.step(Committed{Token: a.Token, Err: g.refuses}) })
			return
		}
		g.calls[g.db.Txn(g.wall(), g.client, a.Txn, callLimit)] = a.Token
		return
	case Extend:
		g.lease = a.Until
		return
	case Serve:
		g.idle = max(g.idle, g.clock) + g.slow
		g.after(g.idle-g.clock+10*time.Millisecond, func() { g.tryServe(a) })
	case Stop:
		delete(g.serving, a.Group)
	case Drain:
		if !g.stuck {
			g.after(10*time.Millisecond, func() {
				delete(g.serving, a.Group)
				g.step(Drained{a.Group, a.Epoch, nil})
			})
		}
	case Fence:
		g.fencing++
		g.fenced = max(g.fenced, g.fencing)
		g.after(20*time.Millisecond, func() {
			g.fencing--
			var err error
			if g.noFence {
				err = errors.New("no monitor answers")
			}
			g.step(FenceResult{a.Incarnation, err})
		})
	case Rejoin:
		clear(g.serving)
		g.after(100*time.Millisecond, g.begin)
	}
	g.log = append(g.log, a)
}

func (g *gateway) tryServe(a Serve) {
	if h := g.held[a.Group]; h == nil || h.epoch != a.Epoch || h.phase != opening {
		return
	}
	if g.broken {
		g.step(Served{a.Group, a.Epoch, errors.New("no such image")})
		return
	}
	if last := g.served[a.Group]; a.Epoch < last {
		g.step(Served{a.Group, a.Epoch, fmt.Errorf("epoch %d is over: it is %d", a.Epoch, last)})
		return
	}
	g.serving[a.Group], g.served[a.Group] = a.Epoch, a.Epoch
	g.step(Served{a.Group, a.Epoch, nil})
}

// run advances the time.
func (c *cluster) run(d time.Duration) {
	c.t.Helper()
	for end := c.clock + d; ; {
		at, do := c.next()
		if at > end {
			c.clock = end
			return
		}
		c.clock = max(c.clock, at)
		do()
		c.check()
	}
}

// next returns what happens next.
func (c *cluster) next() (at time.Duration, do func()) {
	at = never
	if w, ok := c.db.Next(); ok {
		at, do = w.Sub(time.Unix(0, 0)), c.advance
	}
	for _, g := range c.all {
		if !g.dead && g.Deadline() < at {
			at, do = g.Deadline(), func() { g.step(Tick{}) }
		}
	}
	slices.SortStableFunc(c.later, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	if len(c.later) > 0 && c.later[0].at < at {
		at, do = c.later[0].at, func() {
			f := c.later[0].do
			c.later = c.later[1:]
			f()
		}
	}
	return at, do
}

func (c *cluster) advance() {
	for _, r := range c.db.Advance(c.wall()) {
		for _, g := range c.all {
			switch {
			case g.client != r.Client:
			case r.Changed:
				g.step(Changed{})
			case g.gets[r.Call]:
				g.step(Got{g.calls[r.Call], r.Snapshot, r.Err})
			default:
				g.step(Committed{g.calls[r.Call], r.Result, r.Err})
			}
		}
	}
}

// check verifies that no group is served twice.
func (c *cluster) check() {
	c.t.Helper()
	for _, g := range c.config {
		n := 0
		for _, w := range c.all {
			if w.serving[g.ID] > 0 && !w.dead {
				n++
			}
		}
		if n > 1 && g.Backend != Fenced {
			c.t.Fatalf("group %d is served by %d gateways", g.ID, n)
		}
	}
}

// until advances the time until a condition holds, and returns how long that took.
func (c *cluster) until(what string, limit time.Duration, holds func() bool) time.Duration {
	c.t.Helper()
	for d := time.Duration(0); d <= limit; d += 10 * time.Millisecond {
		if holds() {
			return d
		}
		c.run(10 * time.Millisecond)
	}
	for _, g := range c.all {
		c.t.Logf("%s: serves %v, dead %v, %v", g.name, g.serving, g.dead, g.log)
	}
	c.t.Fatalf("not after %v: %s", limit, what)
	return 0
}

// spread returns how many groups each live gateway serves.
func (c *cluster) spread() (n []int) {
	for _, g := range c.all {
		if !g.dead {
			n = append(n, len(g.serving))
		}
	}
	return n
}

func (c *cluster) wantSpread(limit time.Duration, want ...int) time.Duration {
	c.t.Helper()
	return c.until(fmt.Sprintf("the gateways serve %v groups", want), limit, func() bool { return reflect.DeepEqual(c.spread(), want) })
}

// alarmed reports whether there was an alarm.
func (g *gateway) alarmed(kind AlarmKind, text string) bool {
	return slices.ContainsFunc(g.log, func(a Action) bool {
		m, ok := a.(Alarm)
		return ok && m.Kind == kind && strings.Contains(m.Text, text)
	})
}

func (g *gateway) has(want Action) bool {
	return slices.ContainsFunc(g.log, func(a Action) bool { return reflect.DeepEqual(a, want) })
}

// order returns the actions of some kinds as text.
func (g *gateway) order(from int) (all []string) {
	for _, a := range g.log[from:] {
		switch a := a.(type) {
		case Fence, Serve, Stop, Drain, Rejoin, Left:
			all = append(all, fmt.Sprintf("%T", a)[len("group."):])
		}
	}
	return all
}

// outside puts a value into the store, as another version of the program would.
func (c *cluster) outside(key, value string) {
	client := c.db.Join()
	c.db.Txn(c.wall(), client, state.Txn{Then: []state.Op{put(key, []byte(value))}}, callLimit)
	c.run(100 * time.Millisecond)
	c.db.Leave(client)
}

// stored returns the store's value of a key.
func (c *cluster) stored(key string) string {
	if s := c.db.Peek(key); len(s.Entries) > 0 {
		return string(s.Entries[0].Value)
	}
	return ""
}
