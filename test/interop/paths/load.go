package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// A load has workers. Each has a share of the namespace for itself, and knows what the share must contain.
type load struct {
	ns      *multipath.Namespace
	workers sync.WaitGroup
	over    atomic.Bool
	done    atomic.Int64 // requests
	slowest atomic.Int64 // nanoseconds
	err     atomic.Pointer[error]
}

func newLoad(ns *multipath.Namespace) *load { return &load{ns: ns} }

const (
	blockSize = 4096
	blocking  = 4 // workers that wait for each request
	queued    = 2 // workers with a queue
	depth     = 16
	shares    = blocking + queued
	most      = 128 // blocks used of each share: few, so that each is written often
)

func (l *load) start() {
	blocks := l.ns.Size() / blockSize / shares
	for i := range shares {
		w := &worker{load: l, first: int64(i) * blocks, model: make([]uint64, min(blocks, most)), random: rand.New(rand.NewPCG(uint64(i), 1))}
		if i < blocking {
			l.workers.Go(func() { w.run(w.one) })
		} else {
			l.workers.Go(w.queue)
		}
	}
}

// stop ends the workers, which first verify all that they wrote.
func (l *load) stop() {
	l.over.Store(true)
	l.workers.Wait()
}

func (l *load) failure() error {
	if p := l.err.Load(); p != nil {
		return *p
	}
	return nil
}

func (l *load) fail(err error) {
	l.err.CompareAndSwap(nil, &err)
	l.over.Store(true)
}

func (l *load) took(d time.Duration, n int) {
	l.done.Add(int64(n))
	for old := l.slowest.Load(); int64(d) > old && !l.slowest.CompareAndSwap(old, int64(d)); old = l.slowest.Load() {
	}
}

// A worker writes numbered blocks: model has the number of each block's last write.
type worker struct {
	*load
	first   int64
	model   []uint64
	random  *rand.Rand
	number  uint64
	buffers [depth][blockSize]byte
}

// run calls step until the load ends, and then verifies.
func (w *worker) run(step func() error) {
	zero := make([]byte, len(w.model)*blockSize)
	_, err := w.ns.WriteAt(zero, w.first*blockSize)
	for err == nil && !w.over.Load() {
		err = step()
	}
	for k := 0; err == nil && k < len(w.model); k++ {
		b := w.buffers[0][:]
		if _, err = w.ns.ReadAt(b, (w.first+int64(k))*blockSize); err == nil {
			err = w.check(b, int64(k))
		}
	}
	if err != nil {
		w.fail(err)
	}
}

func (w *worker) fill(b []byte, k int64) {
	w.number++
	w.model[k] = w.number
	content(b, w.first+k, w.number)
}

// content fills b with the content of a block: all zeroes if it was never written.
func content(b []byte, block int64, number uint64) {
	if number == 0 {
		clear(b)
		return
	}
	for i := 0; i < len(b); i += 16 {
		binary.LittleEndian.PutUint64(b[i:], uint64(block))
		binary.LittleEndian.PutUint64(b[i+8:], number)
	}
}

func (w *worker) check(b []byte, k int64) error {
	want := make([]byte, len(b))
	content(want, w.first+k, w.model[k])
	if bytes.Equal(b, want) {
		return nil
	}
	return fmt.Errorf("block %d holds write %d of block %d, want write %d: an acknowledged write is lost",
		w.first+k, binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b), w.model[k])
}

// one makes one blocking request.
func (w *worker) one() (err error) {
	k, start, b := w.random.Int64N(int64(len(w.model))), time.Now(), w.buffers[0][:]
	at := (w.first + k) * blockSize
	switch w.random.IntN(8) {
	case 0:
		err = w.ns.Flush()
	case 1, 2, 3:
		w.fill(b, k)
		_, err = w.ns.WriteAt(b, at)
	default:
		if _, err = w.ns.ReadAt(b, at); err == nil {
			err = w.check(b, k)
		}
	}
	w.took(time.Since(start), 1)
	time.Sleep(2 * time.Millisecond)
	return err
}

// queue makes requests in batches, each of different blocks.
func (w *worker) queue() {
	wake := make(chan struct{}, 1)
	q, err := w.ns.OpenQueue(depth, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		w.fail(err)
		return
	}
	w.run(func() error { return w.batch(q, wake) })
	if err := q.Close(); err != nil {
		w.fail(err)
	}
}

func (w *worker) batch(q *multipath.Queue, wake <-chan struct{}) error {
	start := time.Now()
	var rs []backend.Request
	for i, k := range w.random.Perm(len(w.model))[:depth] {
		r := backend.Request{
			Tag: uint64(k)<<8 | uint64(i), Op: backend.OpRead, Offset: (w.first + int64(k)) * blockSize,
			Length: blockSize, Buf: w.buffers[i][:],
		}
		if w.random.IntN(2) == 0 {
			r.Op = backend.OpWrite
			w.fill(r.Buf, int64(k))
		}
		rs = append(rs, r)
	}
	if n := q.Submit(rs); n != depth {
		return fmt.Errorf("the queue took %d of %d requests", n, depth)
	}
	var all []error
	var results [depth]backend.Result
	for left := depth; left > 0; {
		n := q.Poll(results[:])
		for _, r := range results[:n] {
			k, i := int64(r.Tag>>8), int(r.Tag&0xff)
			if r.Err == nil {
				r.Err = w.check(w.buffers[i][:], k)
			}
			all = append(all, r.Err)
		}
		if left -= n; n == 0 {
			<-wake
		}
	}
	w.took(time.Since(start), depth)
	time.Sleep(5 * time.Millisecond)
	return errors.Join(all...)
}
