package sim

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// A blow is a kind of failure or change. Its probability is proportional to weight.
type blow struct {
	weight int
	strike func(*world)
}

func blows() []blow {
	all := []blow{
		{3, (*world).killServer},
		{4, (*world).startServers},
		{1, (*world).loseAllPower},
		{2, (*world).killClient},
		{3, (*world).startClients},
		{1, (*world).stopClient},
		{3, (*world).partition},
		{2, (*world).strand},
		{2, (*world).mend},
		{2, (*world).disconnectAll},
		{3, (*world).changeANA},
		{4, (*world).hurtDisk},
		{3, (*world).repairDisk},
		{4, (*world).fence},
		{2, (*world).readmit},
		{3, (*world).pretend},
	}
	if *holds {
		all = append(all, blow{6, (*world).hold})
	}
	return all
}

// run runs a world: it starts everything, injects failures for a while, repairs everything and checks that all works
// again.
func (w *world) run() {
	for _, s := range w.servers {
		w.started(s.start())
	}
	for _, c := range w.clients {
		w.started(c.start())
	}
	all, sum := blows(), 0
	for _, b := range all {
		sum += b.weight
	}
	for range 6 + w.rng.IntN(10) {
		time.Sleep(time.Duration(w.rng.ExpFloat64() * float64(2500*time.Millisecond)))
		n := w.rng.IntN(sum)
		for _, b := range all {
			if n -= b.weight; n < 0 {
				b.strike(w)
				break
			}
		}
	}
	w.recover()
	w.verify("after all was repaired")
	for _, c := range w.clients {
		c.kill()
	}
	w.loseAllPower()
	w.recover()
	w.verify("after the last power failure")
	for _, c := range w.clients {
		c.stop()
	}
	for _, s := range w.servers {
		s.close()
	}
	w.wait.Wait()
}

// started ends the simulation if something cannot be started.
func (w *world) started(err error) {
	if err != nil {
		w.t.Fatalf("seed %d: %v\n%s", w.seed, err, strings.Join(w.storyLines(), "\n"))
	}
}

func (w *world) server() *server { return w.servers[w.rng.IntN(len(w.servers))] }
func (w *world) client() *client { return w.clients[w.rng.IntN(len(w.clients))] }

func (w *world) port() *port {
	all := w.allPorts()
	return all[w.rng.IntN(len(all))]
}

func (w *world) killServer() {
	if s := w.server(); s.target != nil {
		s.kill()
	}
}

func (w *world) startServers() {
	for _, s := range w.servers {
		if s.target == nil {
			w.started(s.start())
		}
	}
}

// hold delays a target's packets, for up to longer than hosts wait before they send a write on another path.
func (w *world) hold() {
	s := w.server()
	if s.target == nil {
		return
	}
	d := time.Duration(w.rng.Int64N(int64(6 * w.kato)))
	w.note(s.name(), "is held up for %v", d)
	for _, p := range s.ports {
		w.network.Hold(p.addr.Addr(), d)
	}
}

// loseAllPower ends all targets, and the disk loses what is not durable.
func (w *world) loseAllPower() {
	for _, s := range w.servers {
		if s.target != nil {
			s.kill()
		}
	}
	w.powerFails(true)
}

func (w *world) killClient() {
	if c := w.client(); c.up {
		c.kill()
	}
}

// stopClient stops a host, which disconnects in order.
func (w *world) stopClient() {
	if c := w.client(); c.up {
		w.note(c.name(), "stops")
		c.stop()
	}
}

func (w *world) startClients() {
	for _, c := range w.clients {
		if !c.up {
			w.started(c.start())
		}
	}
}

// partition cuts the network between a host and a port, in one direction or both.
func (w *world) partition() {
	c, p := w.client(), w.port()
	ways := 1 + w.rng.IntN(3)
	w.note("network", "cuts %s and %v, ways %02b", c.name(), p.addr.Addr(), ways)
	if ways&1 != 0 {
		w.sever(c.addr, p.addr.Addr(), true)
	}
	if ways&2 != 0 {
		w.sever(p.addr.Addr(), c.addr, true)
	}
}

// strand cuts a port off all hosts while commands from it are in the store. They stay there for as long as hosts wait
// for commands of a lost controller to end.
func (w *world) strand() {
	p := w.port()
	w.disk.setSlow(5*w.kato/2, 3*w.kato)
	time.Sleep(w.kato / 2)
	w.note("network", "cuts %v from all hosts, with commands in the store for up to %v", p.addr.Addr(), 3*w.kato)
	for _, c := range w.clients {
		w.sever(c.addr, p.addr.Addr(), true)
		w.sever(p.addr.Addr(), c.addr, true)
	}
	w.disk.setSlow(0, 0)
}

// mend ends all cuts of the network.
func (w *world) mend() {
	w.note("network", "is whole again")
	for _, s := range w.servers {
		if s.target != nil {
			for _, p := range s.ports {
				for _, c := range w.clients {
					if c.up {
						w.sever(c.addr, p.addr.Addr(), false)
						w.sever(p.addr.Addr(), c.addr, false)
					}
				}
			}
		}
	}
}

func (w *world) disconnectAll() {
	if s := w.server(); s.target != nil {
		s.disconnect()
	}
}

func (w *world) changeANA() {
	if s := w.server(); s.target != nil {
		p := s.ports[w.rng.IntN(len(s.ports))]
		s.setANA(p, pick(w.rng, capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAChange))
	}
}

func (w *world) hurtDisk() {
	d := w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	switch w.rng.IntN(6) {
	case 0:
		d.readErrors = pick(w.rng, 0.1, 1)
		w.note("disk", "fails %v of its reads", d.readErrors)
	case 1:
		d.writeErrors = pick(w.rng, 0.1, 1)
		w.note("disk", "fails %v of its writes", d.writeErrors)
	case 2:
		d.noFlush = pick(w.rng, 0.2, 1)
		w.note("disk", "fails %v of its flushes", d.noFlush)
	case 3:
		d.full = true
		w.note("disk", "is full")
	default:
		// At most as long as hosts wait for commands of a lost controller to end.
		d.least, d.slow = 0, pick(w.rng, 20*time.Millisecond, 300*time.Millisecond, w.kato, 3*w.kato)
		w.note("disk", "takes up to %v", d.slow)
	}
}

// repairDisk does what an administrator does: a disk that failed a flush is used again after it has lost what was not
// flushed.
func (w *world) repairDisk() {
	w.disk.repair()
	w.note("disk", "is repaired")
	w.disk.mu.Lock()
	latched := w.disk.latched != nil
	w.disk.mu.Unlock()
	if latched {
		w.powerFails(false)
	}
}

// fence lets one host preempt the registration of another.
func (w *world) fence() {
	by, victim := w.client(), w.client()
	if !w.fencing || by == victim || !by.isRegistered() || !victim.isRegistered() {
		return
	}
	ns := by.namespace()
	if ns == nil {
		return
	}
	victim.setRegistered(false) // from now on its state is unknown
	busy := w.rng.IntN(2) == 0
	if busy { // so that commands of the victim are in the store
		w.disk.setSlow(0, w.kato/2)
		w.note("disk", "takes up to %v", w.kato/2)
	}
	w.wait.Go(func() {
		if busy {
			time.Sleep(w.kato / 2)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		w.note(by.name(), "preempts %s", victim.name())
		before := w.registrationsOf(victim.id)
		err := ns.Use(ctx, multipath.Once, func(n *host.Namespace) error {
			return n.Reservations().Preempt(ctx, key(by.id), key(victim.id), reservation, true)
		})
		// A registration in progress may be executed after the preemption.
		if err == nil && before.begun == before.settled && w.registrationsOf(victim.id) == before {
			w.setFenced(victim.id, true)
		}
		w.note(by.name(), "preempting %s: %v", victim.name(), err)
	})
}

// pretend lets a client connect as a host without the host's key.
func (w *world) pretend() {
	c, p := w.client(), w.port()
	if w.key.IsZero() || !c.up {
		return
	}
	key := auth.Key{}
	if w.rng.IntN(2) == 0 {
		key = newKey(w.t)
	}
	w.note("network", "has somebody pretend to be %s", c.name())
	c.wait.Go(func() { c.pretend(p, key) }) // ends by its timeout
}

// readmit lets hosts that were fenced register again.
func (w *world) readmit() {
	for _, c := range w.clients {
		ns := c.namespace()
		if !w.isFenced(c.id) || ns == nil {
			continue
		}
		w.setFenced(c.id, false)
		w.note(c.name(), "registers again")
		w.wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := c.register(ctx, ns); err != nil {
				w.note(c.name(), "does not register: %v", err)
			}
		})
	}
}

func (c *client) isRegistered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered
}

func (c *client) setRegistered(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered = is
}

// recover repairs everything.
func (w *world) recover() {
	w.note("world", "is repaired")
	w.repairDisk()
	w.startServers()
	w.startClients()
	w.mend()
	for _, s := range w.servers {
		for _, p := range s.ports {
			s.setANA(p, capsule.ANAOptimized)
		}
	}
}

// recoveryTime is the limit for everything to recover by itself.
const recoveryTime = 3 * time.Minute

// verify waits until each host has all its paths, and reads every block through it. A broken path may seem live until a
// request on it times out. Such a request fails if FastIOFailTmo is less than ReconnectDelay, and is then repeated.
func (w *world) verify(when string) {
	w.wait.Wait() // preemptions in progress must not affect the reads
	for _, c := range w.clients {
		deadline := time.Now().Add(recoveryTime)
		c.awaitPaths(deadline, when)
		ns := c.namespace()
		if ns == nil {
			continue
		}
		k := &worker{c: c, id: workers, ns: ns}
		for g := range groups {
			err := k.readGroup(g, deadline)
			for errors.As(err, new(*multipath.NoPathError)) && time.Now().Before(deadline) {
				c.awaitPaths(deadline, when)
				err = k.readGroup(g, deadline)
			}
			if err != nil {
				w.violation("%s cannot read %s: %v", c.name(), when, err)
			}
		}
	}
}

// awaitPaths waits until all paths of a host are live.
func (c *client) awaitPaths(deadline time.Time, when string) {
	for !c.whole() {
		if time.Now().After(deadline) {
			c.w.violation("%s does not have all its paths %v %s: %s", c.name(), recoveryTime, when, c.paths())
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// readGroup reads a group of blocks and records it in the history.
func (k *worker) readGroup(g int, deadline time.Time) error {
	w := k.c.w
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	o := w.begin(operation{host: k.c.id, worker: k.id, kind: read, first: g * groupSize, values: make([]value, groupSize)})
	b := k.buffer(o)
	_, err := k.ns.ReadAtContext(ctx, b, int64(o.first*k.blockSize()))
	if err == nil {
		k.found(o, b)
	}
	k.c.end(o, err)
	return err
}

// whole reports whether all paths are live.
func (c *client) whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sub == nil {
		return false
	}
	for _, p := range c.sub.Paths() {
		if p.Status().State != multipath.StateLive {
			return false
		}
	}
	return true
}

func (c *client) paths() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sub == nil {
		return "none"
	}
	s := ""
	for _, p := range c.sub.Paths() {
		st := p.Status()
		s += p.Addr().String() + " " + st.State.String()
		if st.Err != nil {
			s += " (" + st.Err.Error() + ")"
		}
		s += "; "
	}
	return s
}
