package groupsim

import (
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

const blocks = 4 // of each group

var (
	errBlocklisted = errors.New("this client is blocklisted")
	errCut         = errors.New("the storage does not answer")
)

// A disk stores what gateways have written. It identifies its clients by the gateway's incarnation.
type disk struct {
	w       *world
	epoch   int                       // epoch of the monitor's map
	blocked map[group.Incarnation]int // epoch of the map that blocks an incarnation
	seen    map[group.ID]int          // map epoch of each group's OSD
	cells   map[group.ID]*[blocks]cell
	latest  map[group.ID]uint64 // the greatest owner epoch whose write has landed
	stopped time.Duration       // time before which nothing lands
}

// A cell is a block, and what hosts know of it.
type cell struct {
	value uint64
	acked uint64
}

// A write is a write or read on its way to the disk.
type write struct {
	g      *gateway
	life   int // of the process
	inc    group.Incarnation
	map_   int // the client's map epoch
	group  group.ID
	epoch  uint64 // the owner's epoch
	block  int
	value  uint64 // 0: a read
	host   int
	right  int // the registration under which the host writes
	done   func(value uint64, err error)
	leased bool
}

func newDisk(w *world) *disk {
	d := &disk{w: w, blocked: map[group.Incarnation]int{}, seen: map[group.ID]int{}, cells: map[group.ID]*[blocks]cell{}, latest: map[group.ID]uint64{}}
	for _, g := range w.groups {
		d.cells[g.ID] = &[blocks]cell{}
	}
	return d
}

// submit sends a write. It may take up to a minute with a fence, but not without.
func (d *disk) submit(x *write) {
	delay := d.w.between(100*time.Microsecond, 2*time.Millisecond)
	if !x.leased && d.w.faults && d.w.rng.IntN(400) == 0 {
		delay = d.w.between(0, time.Minute)
		d.w.note("disk: a command of %s to group %d hangs for %v", x.inc, x.group, delay)
	}
	d.w.after(delay, func() { d.arrive(x) })
}

// arrive lets a write land. While the network is cut it waits, because the packets are sent again, unless the machine
// is dead.
func (d *disk) arrive(x *write) {
	dead := !x.g.running || x.g.life != x.life
	switch {
	case x.g.storageCut && x.leased:
		d.reply(x, 0, errCut)
	case x.g.storageCut && dead:
	case x.g.storageCut || d.w.now < d.stopped && !x.leased:
		d.w.after(200*time.Millisecond, func() { d.arrive(x) })
	default:
		d.land(x)
	}
}

func (d *disk) land(x *write) {
	d.seen[x.group] = max(d.seen[x.group], x.map_)
	if since, ok := d.blocked[x.inc]; ok && since <= d.seen[x.group] && !x.leased {
		d.reply(x, 0, errBlocklisted)
		return
	}
	c := &d.cells[x.group][x.block]
	if x.value == 0 {
		d.reply(x, c.value, nil)
		return
	}
	switch {
	case x.epoch < d.latest[x.group]:
		d.w.violation("two writers: a write of epoch %d of group %d lands (%s), after one of epoch %d", x.epoch, x.group, x.inc, d.latest[x.group])
	case x.value < c.acked:
		d.w.violation("a stale write: %d of block %d of group %d lands (%s, epoch %d), %d was acknowledged", x.value, x.block, x.group, x.inc, x.epoch, c.acked)
	}
	d.w.book.landed(x)
	d.latest[x.group] = x.epoch
	c.value = x.value
	d.reply(x, x.value, nil)
}

func (d *disk) reply(x *write, value uint64, err error) {
	d.w.after(d.w.between(50*time.Microsecond, time.Millisecond), func() { x.g.answered(x, value, err) })
}

// fence lets a gateway block an incarnation.
func (d *disk) fence(g *gateway, inc group.Incarnation) {
	life, own := g.life, g.inc
	d.w.after(d.w.between(time.Millisecond, 50*time.Millisecond), func() {
		lost := g.storageCut && d.w.rng.IntN(2) == 0
		if d.w.now < d.stopped || g.storageCut && !lost {
			d.fenceResult(g, life, own, inc, errCut)
			return
		}
		if _, ok := d.blocked[inc]; !ok {
			d.epoch++
			d.blocked[inc] = d.epoch
			d.w.note("disk: %s is blocklisted by map %d, for %s", inc, d.epoch, own)
			d.gossip(d.epoch)
		}
		if lost {
			d.fenceResult(g, life, own, inc, errCut)
			return
		}
		g.mapEpoch = d.epoch // harmless if another incarnation has it: it has one map more
		d.await(g, life, own, inc, d.w.now+3*time.Second)
	})
}

// await reports a fence when all OSDs have the map with it. A gateway ensures that when it visits all placement groups
// of its images' pools (rbd.Client.AwaitFence): an OSD gets the map from a client that visits it, and an OSD that is
// down has no placement groups. Gateways do that before they serve a group but after they own it. Here it is part of
// the fence and happens before that; in both cases no gateway serves the group meanwhile. A disk that does not answer
// fails the fence, as it fails a visit.
func (d *disk) await(g *gateway, life int, own, inc group.Incarnation, limit time.Duration) {
	missing := false
	for _, x := range d.w.groups {
		missing = missing || x.Backend == group.Fenced && d.seen[x.ID] < d.blocked[inc]
	}
	switch {
	case !missing || d.w.wrong == staleMap || d.w.wrong == weakFence:
		d.fenceResult(g, life, own, inc, nil)
	case d.w.now >= limit || g.storageCut:
		d.fenceResult(g, life, own, inc, errCut)
	default:
		d.w.after(10*time.Millisecond, func() { d.await(g, life, own, inc, limit) })
	}
}

func (d *disk) fenceResult(g *gateway, life int, own, inc group.Incarnation, err error) {
	var wait time.Duration
	if err != nil {
		wait = d.w.between(0, 2*time.Second)
	}
	d.w.after(wait, func() {
		if g.life == life && g.inc == own {
			g.deliver(group.FenceResult{Incarnation: inc, Err: err})
		}
	})
}

// gossip lets each OSD get a map some time later.
func (d *disk) gossip(epoch int) {
	for _, g := range d.w.groups {
		late := 100 * time.Millisecond
		if d.w.rng.IntN(4) == 0 || d.w.wrong == weakFence || d.w.wrong == staleMap {
			late = 20 * time.Second
		}
		d.w.after(d.w.between(0, late), func() { d.seen[g.ID] = max(d.seen[g.ID], epoch) })
	}
}
