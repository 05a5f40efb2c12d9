package nbd

import "slices"

// A gate orders the changes of a disk. It is owned by the loop.
//
// A change of a part of a block is executed alone, since it reads the block first and then writes all of it. All
// changes wait for those of clients that have gone: these were not acknowledged, and a store may execute them late, for
// example on another path, after later changes that were acknowledged.
type gate struct {
	disk      string
	writers   int  // number of changes in progress
	exclusive bool // the change in progress must be alone
	left      int  // number of them whose clients have gone
	reported  bool // it was logged that others wait for these
	waiting   []waiting
}

type waiting struct {
	c    *conn
	slot uint16
}

// enter begins a change, or returns false and calls conn.start for it later.
func (g *gate) enter(c *conn, r *request) bool {
	if c.fresh { // its sender may know that other clients have gone
		c.fresh = false
		c.loop.hangUps(g, c)
	}
	if len(g.waiting) == 0 && g.admit(c, r) {
		return true
	}
	g.waiting = append(g.waiting, waiting{c, r.slot})
	if g.left > 0 && !g.reported {
		g.reported = true
		c.loop.sayOfClient("disk %s: changes wait until requests of clients that have gone are completed", g.disk)
	}
	return false
}

func (g *gate) admit(c *conn, r *request) bool {
	if g.exclusive || g.left > 0 || r.partial && g.writers > 0 {
		return false
	}
	g.writers++
	c.changing++
	g.exclusive = r.partial
	return true
}

// leave ends a change, and begins changes that wait for it.
func (g *gate) leave(c *conn) {
	g.writers--
	c.changing--
	g.exclusive = false
	if c.dead {
		g.left--
	}
	g.next()
}

// abandon handles a client that has gone. Its waiting changes are never begun.
func (g *gate) abandon(c *conn) {
	g.left += c.changing
	g.waiting = slices.DeleteFunc(g.waiting, func(w waiting) bool {
		if w.c == c {
			c.release(&c.slots[w.slot])
		}
		return w.c == c
	})
	g.next()
}

// next begins the waiting changes that may begin now.
func (g *gate) next() {
	g.reported = g.reported && g.left > 0
	for len(g.waiting) > 0 {
		w := g.waiting[0]
		r := &w.c.slots[w.slot]
		if !g.admit(w.c, r) {
			return
		}
		g.waiting = g.waiting[1:]
		w.c.start(r)
	}
}
