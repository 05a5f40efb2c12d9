package multipath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A load writes and reads at random, and checks what it reads: each write has a number, and a block contains the number
// of its last acknowledged write.
type load struct {
	t    *testing.T
	ns   *Namespace
	end  atomic.Bool
	wg   sync.WaitGroup
	ops  atomic.Int64
	slow atomic.Int64 // the longest request, nanoseconds
}

const loadBlock = 4096

// pace is the pause between requests, so that a load lasts for the seconds that a failover takes.
func pace() time.Duration {
	if *long {
		return 100 * time.Millisecond
	}
	return 250 * time.Millisecond
}

// startLoad starts a goroutine for each way to use a namespace: one with blocking calls, and two with queues, of which
// one is polled and the other one's owner sleeps.
func startLoad(t *testing.T, ns *Namespace) *load {
	l := &load{t: t, ns: ns}
	share := ns.Size() / loadBlock / 4
	l.wg.Go(func() { l.blocking(0, share) })
	l.wg.Go(func() { l.blocking(share, share) })
	l.wg.Go(func() { l.queued(2*share, share, false) })
	l.wg.Go(func() { l.queued(3*share, share, true) })
	return l
}

// stop ends the load, and returns how much it did.
func (l *load) stop() {
	l.t.Helper()
	l.end.Store(true)
	l.wg.Wait()
	l.t.Logf("%d requests, the slowest took %v", l.ops.Load(), time.Duration(l.slow.Load()))
}

// progress waits until the load has made progress.
func (l *load) progress() {
	for before := l.ops.Load(); l.ops.Load() < before+50; {
		time.Sleep(10 * time.Millisecond)
	}
}

func (l *load) took(d time.Duration) {
	l.ops.Add(1)
	for old := l.slow.Load(); int64(d) > old && !l.slow.CompareAndSwap(old, int64(d)); old = l.slow.Load() {
	}
}

// fill fills a block with its number and the number of a write.
func fill(b []byte, block int64, number uint64) {
	for i := 0; i < len(b); i += 16 {
		binary.LittleEndian.PutUint64(b[i:], uint64(block))
		binary.LittleEndian.PutUint64(b[i+8:], number)
	}
}

func check(b []byte, block int64, number uint64) error {
	want := make([]byte, len(b))
	if number > 0 {
		fill(want, block, number)
	}
	if !bytes.Equal(b, want) {
		return fmt.Errorf("block %d holds write %d of block %d, want write %d",
			block, binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b), number)
	}
	return nil
}

func (l *load) blocking(first, blocks int64) {
	rng := rand.New(rand.NewPCG(uint64(first), 1))
	model := make([]uint64, blocks)
	b := make([]byte, loadBlock)
	for number := uint64(1); !l.end.Load(); number++ {
		k, start := rng.Int64N(blocks), time.Now()
		var err error
		switch rng.IntN(8) {
		case 0:
			err = l.ns.Flush()
		case 1:
			err = l.ns.WriteZeroes((first+k)*loadBlock, loadBlock, false)
			model[k] = 0
		case 2, 3, 4:
			fill(b, first+k, number)
			_, err = l.ns.WriteAt(b, (first+k)*loadBlock)
			model[k] = number
		default:
			if _, err = l.ns.ReadAt(b, (first+k)*loadBlock); err == nil {
				err = check(b, first+k, model[k])
			}
		}
		if err != nil {
			l.t.Errorf("request %d at block %d: %v", number, first+k, err)
			return
		}
		l.took(time.Since(start))
		time.Sleep(pace())
	}
	l.verify(first, model)
}

func (l *load) verify(first int64, model []uint64) {
	b := make([]byte, loadBlock)
	for k := range model {
		_, err := l.ns.ReadAt(b, (first+int64(k))*loadBlock)
		if err == nil {
			err = check(b, first+int64(k), model[k])
		}
		if err != nil {
			l.t.Errorf("at the end: %v", err)
			return
		}
	}
}

// depth is the number of requests in flight of a queue of the load.
const depth = 8

// A queueLoad is a load on a queue, in batches of requests for different blocks.
type queueLoad struct {
	*load
	q       *Queue
	wake    chan struct{} // nil: the owner does not sleep
	first   int64
	model   []uint64
	rng     *rand.Rand
	buffers [depth][loadBlock]byte
}

func (l *load) queued(first, blocks int64, sleeps bool) {
	g := &queueLoad{load: l, first: first, model: make([]uint64, blocks), rng: rand.New(rand.NewPCG(uint64(first), 2))}
	var notify func()
	if sleeps {
		g.wake = make(chan struct{}, 1)
		notify = func() {
			select {
			case g.wake <- struct{}{}:
			default:
			}
		}
	}
	var err error
	if g.q, err = l.ns.OpenQueue(depth, notify); err != nil {
		l.t.Error(err)
		return
	}
	for number := uint64(1); !l.end.Load(); number++ {
		start := time.Now()
		g.round(number)
		l.took(time.Since(start))
		time.Sleep(pace())
	}
	if err := g.q.Close(); err != nil {
		l.t.Error(err)
	}
	l.verify(first, g.model)
}

// round is one batch.
func (g *queueLoad) round(number uint64) {
	var rs []backend.Request
	for i, k := range g.rng.Perm(len(g.model))[:depth] {
		r := backend.Request{
			Tag: uint64(k)<<8 | uint64(i), Op: backend.OpRead, Offset: (g.first + int64(k)) * loadBlock,
			Length: loadBlock, Buf: g.buffers[i][:],
		}
		if g.rng.IntN(2) == 0 {
			r.Op = backend.OpWrite
			fill(r.Buf, g.first+int64(k), number)
			g.model[k] = number
		}
		rs = append(rs, r)
	}
	if n := g.q.Submit(rs); n != depth {
		g.t.Errorf("queue took %d of %d", n, depth)
	}
	var results [depth]backend.Result
	for left := depth; left > 0; {
		n := g.q.Poll(results[:])
		for _, res := range results[:n] {
			k, i := int64(res.Tag>>8), int(res.Tag&0xff)
			err := res.Err
			if err == nil {
				err = check(g.buffers[i][:], g.first+k, g.model[k])
			}
			if err != nil {
				g.t.Errorf("queued request at block %d: %v", g.first+k, err)
			}
		}
		left -= n
		switch {
		case n > 0:
		case g.wake != nil:
			<-g.wake
		default:
			time.Sleep(2 * time.Millisecond)
		}
	}
}
