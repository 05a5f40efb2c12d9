package group

import (
	"testing"
	"time"
)

// session returns the session of the live gateways, which all must know.
func (c *cluster) session() Incarnation {
	c.t.Helper()
	var id Incarnation
	for _, g := range c.all {
		if g.dead {
			continue
		}
		c.until("the session is known", 10*time.Second, func() bool { return g.own() != nil && g.own().value.Session != "" })
		if s := g.own().value.Session; id != "" && s != id {
			c.t.Errorf("%s is in session %s, another in %s", g.name, s, id)
		} else {
			id = s
		}
	}
	return id
}

// TestSession: a session lasts as long as there is any gateway.
func TestSession(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a := c.start("a")
	first := c.session()
	if first != "a.1" {
		t.Errorf("the first session is %q", first)
	}
	b := c.start("b")
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"another joins", func() {}},
		{"a is killed", func() { a.kill(); c.run(5 * time.Second) }},
		{"a is back", func() { a = c.start("a") }},
		{"b begins anew", func() { b.step(Blocklisted{b.inc}) }},
		{"b leaves", func() { b.step(Leave{}); c.run(5 * time.Second); b.kill() }},
		{"a, alone, begins anew", func() { a.step(Blocklisted{a.inc}) }},
		{"b is back", func() { b = c.start("b") }},
		{"b leaves again", func() { b.step(Leave{}); c.run(5 * time.Second); b.kill() }},
		{"b is back, and a leaves at once", func() {
			b = c.start("b")
			c.until("b is registered", time.Second, func() bool { return b.own() != nil })
			a.step(Leave{})
			c.run(5 * time.Second)
			a.kill()
		}},
		{"a is back again", func() { a = c.start("a") }},
	} {
		step.do()
		if s := c.session(); s != first {
			t.Errorf("%s: session %s, want %s", step.what, s, first)
		}
	}
	// All of them lose power, and the last one that returns detects that none was left.
	a.kill()
	b.kill()
	c.run(time.Minute)
	a = c.start("a")
	if c.run(1500 * time.Millisecond); a.own() == nil || a.own().value.Session != "" {
		t.Errorf("it does not wait for b, which may be alive: %+v", a.own())
	}
	if s := c.session(); s == first || s != a.inc {
		t.Errorf("session %s after all were gone", s)
	}
	b = c.start("b")
	if s := c.session(); s != a.inc {
		t.Errorf("session %s", s)
	}
	b.step(Leave{})
	a.step(Leave{})
	c.run(5 * time.Second)
	a.kill()
	b.kill()
	b = c.start("b")
	if s := c.session(); s != b.inc {
		t.Errorf("session %s after all have left", s)
	}
}
