package nbd

// A gate keeps a change of a part of a block apart from every other change of its
// disk, since it reads the block first and writes all of it. It belongs to the loop.
type gate struct {
	writers   int  // changes that are going on
	exclusive bool // one of them is alone
	waiting   []waiting
}

type waiting struct {
	c    *conn
	slot uint16
}

// enter begins a change, or puts it off until conn.change is called again for it.
func (g *gate) enter(c *conn, r *request) bool {
	if len(g.waiting) == 0 && g.admit(r) {
		return true
	}
	g.waiting = append(g.waiting, waiting{c, r.slot})
	return false
}

func (g *gate) admit(r *request) bool {
	if g.exclusive || r.partial && g.writers > 0 {
		return false
	}
	g.writers++
	g.exclusive = r.partial
	return true
}

// leave ends a change and begins those that wait for that.
func (g *gate) leave() {
	g.writers--
	g.exclusive = false
	for len(g.waiting) > 0 {
		w := g.waiting[0]
		if !g.admit(&w.c.slots[w.slot]) {
			return
		}
		g.waiting = g.waiting[1:]
		w.c.start(&w.c.slots[w.slot])
	}
}
