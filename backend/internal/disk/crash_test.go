package disk

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A landing is the position of a write in the order in which writes reached the drive. Conflicting calls are never in
// the kernel together, so of two writes of one block the one with the higher number is newer.
type landing uint64

// A platter is a drive with a volatile cache.
type platter struct {
	last    landing
	durable map[int64]landing   // by block: what certainly survives
	cached  map[int64][]landing // what may survive instead, oldest first
}

// write performs a write, which is durable if requested.
func (p *platter) write(c call) landing {
	p.last++
	for block := c.offset / 4096; block < (c.offset+c.bytes())/4096; block++ {
		p.cached[block] = append(p.cached[block], p.last)
		if c.flags == unix.RWF_DSYNC {
			p.settle(block, p.last)
		}
	}
	return p.last
}

// sync makes durable what had reached the drive when it began.
func (p *platter) sync(began landing) {
	for block := range p.cached {
		p.settle(block, began)
	}
}

func (p *platter) settle(block int64, upTo landing) {
	for len(p.cached[block]) > 0 && p.cached[block][0] <= upTo {
		p.durable[block] = p.cached[block][0]
		p.cached[block] = p.cached[block][1:]
	}
}

// lose is a sync that fails: for some blocks the kernel forgets what was not written.
func (p *platter) lose(rnd *rand.Rand) {
	for block := range p.cached {
		if rnd.IntN(2) == 0 {
			p.cached[block] = nil
		}
	}
}

// A promise is what the disk has reported to its user: a block holds this landing or a newer one.
type promise map[int64]landing

func (p promise) add(block int64, n landing) { p[block] = max(p[block], n) }

// A crasher does random work and simulates a power failure at every point of it.
type crasher struct {
	platter
	rnd       *rand.Rand
	tag       uint64
	writes    map[uint64]backend.Request // in flight, by tag
	landed    map[uint64]landing         // by tag
	completed promise                    // by writes whose results were polled
	flushes   map[uint64]promise         // in flight: what each will promise
	began     map[*script]landing        // where the running sync began
	promised  promise
	promises  int // number of promises

	syncsInWrites bool // durable writes fail, not flushes
}

// breakable reports whether a call may fail in this run.
func (c *crasher) breakable(o call) bool {
	if c.syncsInWrites {
		return o.kind == callWrite && o.flags == unix.RWF_DSYNC
	}
	return o.kind == callSync
}

// The power fails at every point of random work on two queues, whose calls end late and in any order. In each state in
// which the drive may be left, what was promised must be there: by a completed force unit access write, or by a
// completed flush after a completed write. In every fourth run a sync fails, and in another one the sync of a durable
// write fails for lack of space.
func TestCrashConsistency(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d, k := scripted(t, thick)
			qs := []*tester{k.queue(t, d), k.queue(t, d)}
			c := &crasher{
				platter:   platter{durable: map[int64]landing{}, cached: map[int64][]landing{}},
				rnd:       rand.New(rand.NewPCG(seed, 6)),
				writes:    map[uint64]backend.Request{},
				landed:    map[uint64]landing{},
				completed: promise{}, flushes: map[uint64]promise{}, promised: promise{},
				began: map[*script]landing{},
			}
			breaks := seed%4 >= 2
			c.syncsInWrites = seed%4 == 2
			c.work(t, qs, breaks)
			if c.promises < 50 {
				t.Errorf("only %d promises were checked", c.promises)
			}
			if broken := d.Failed() != nil; broken != breaks {
				t.Errorf("failed: %v", d.Failed())
			}
		})
	}
}

func (c *crasher) work(t *testing.T, qs []*tester, breaks bool) {
	const rounds = 600
	for round := range rounds + 100 {
		qt := qs[c.rnd.IntN(2)]
		if round < rounds && len(c.writes)+len(c.flushes) < 12 {
			c.submit(qt)
		}
		c.noteSyncs(qs)
		if n := len(qt.calls); n > 0 && c.rnd.IntN(3) > 0 {
			i := c.rnd.IntN(n)
			if breaks && round > rounds/2 && c.breakable(qt.calls[i]) {
				breaks = false
				c.lose(c.rnd)
				errno := unix.ENOSPC
				if qt.calls[i].kind == callSync {
					delete(c.began, qt.script)
					errno = unix.EIO
				}
				qt.end(i, 0, errno)
			} else {
				c.end(qt, i)
			}
		}
		c.poll(qt)
		c.noteSyncs(qs)
		for block, n := range c.promised {
			if c.durable[block] < n {
				t.Fatalf("block %d: landing %d was promised, %d survives", block, n, c.durable[block])
			}
		}
	}
}

func (c *crasher) submit(qt *tester) {
	c.tag++
	tag := c.tag
	if c.rnd.IntN(4) == 0 {
		will := promise{}
		for block, n := range c.completed {
			will[block] = n
		}
		c.flushes[tag] = will
		qt.submit(tag, backend.OpFlush, 0, 0)
		return
	}
	first := c.rnd.Int64N(6)
	length := (1 + c.rnd.Int64N(3)) * 4096
	qt.submit(tag, backend.OpWrite, first*4096, length, func(r *backend.Request) {
		r.FUA = c.rnd.IntN(4) == 0
		binary.LittleEndian.PutUint64(r.Buf, tag) // for end
		c.writes[tag] = *r
	})
}

// noteSyncs records where a sync that has just begun started.
func (c *crasher) noteSyncs(qs []*tester) {
	for _, qt := range qs {
		for _, o := range qt.calls {
			if _, known := c.began[qt.script]; o.kind == callSync && !known {
				c.began[qt.script] = c.last
			}
		}
	}
}

// end ends a call with success.
func (c *crasher) end(qt *tester, i int) {
	switch o := qt.calls[i]; o.kind {
	case callWrite:
		c.landed[binary.LittleEndian.Uint64(o.buf)] = c.write(o)
	case callSync:
		c.sync(c.began[qt.script])
		delete(c.began, qt.script)
	}
	qt.end(i, qt.calls[i].bytes(), 0)
}

// poll records what the disk promises.
func (c *crasher) poll(qt *tester) {
	qt.poll()
	for tag, err := range qt.results {
		will := c.flushes[tag]
		if r, ok := c.writes[tag]; ok {
			will = promise{}
			for block := r.Offset / 4096; err == nil && block < (r.Offset+r.Length)/4096; block++ {
				c.completed.add(block, c.landed[tag])
				if r.FUA {
					will.add(block, c.landed[tag])
				}
			}
		}
		for block, n := range will {
			if err == nil {
				c.promised.add(block, n)
				c.promises++
			}
		}
		delete(c.writes, tag)
		delete(c.flushes, tag)
	}
	clear(qt.results)
}
