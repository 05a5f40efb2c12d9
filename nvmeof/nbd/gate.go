package nbd

import "slices"

// A gate keeps a change of a part of a block apart from every other change of its
// disk, since it reads the block first and writes all of it. It keeps all changes apart
// from those of clients that have gone: nobody has been told of these, and a store may
// carry them out late, as over another path, after what others were told is done. It
// belongs to the loop.
type gate struct {
	disk      string
	writers   int  // changes that are going on
	exclusive bool // one of them is alone
	left      int  // those of clients that have gone
	reported  bool // that others wait for these
	waiting   []waiting
}

type waiting struct {
	c    *conn
	slot uint16
}

// enter begins a change, or puts it off until conn.start is called for it.
func (g *gate) enter(c *conn, r *request) bool {
	if c.fresh { // who sent it may know that others have gone
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

// leave ends a change and begins those that wait for that.
func (g *gate) leave(c *conn) {
	g.writers--
	c.changing--
	g.exclusive = false
	if c.dead {
		g.left--
	}
	g.next()
}

// abandon is for a client that has gone. What it has waiting is never begun.
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

// next begins those that wait, as far as they may.
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
