package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

const (
	loadBlock  = 4096 // bytes
	loadBlocks = 64   // of a client; nobody else writes them
	loadDepth  = 16   // concurrent requests

	pause      = 2 * time.Millisecond   // between rounds: other tests run in parallel
	lightPause = 100 * time.Millisecond // for a load that only has to continue while something else is waited for
	busyTime   = 250 * time.Millisecond // how long a load stays busy after more has waited for it, so that the test's next step finds it busy
)

// An nbdLoad has clients that write numbered blocks and read others back, with several requests at a time. Any error
// ends it. A read must return what was written last.
type nbdLoad struct {
	workers []*nbdWorker
	rounds  atomic.Int64 // successful rounds of all clients
	busy    atomic.Int64 // until this Unix time in nanoseconds the pause between rounds is short
	stop    atomic.Bool
	ended   chan error
}

// startLoad starts a load with clients of one export, which must not be used otherwise.
func startLoad(clients ...*nbdClient) *nbdLoad {
	l := &nbdLoad{ended: make(chan error, 1)}
	l.stayBusy()
	errs := make(chan error)
	for i, n := range clients {
		w := &nbdWorker{nbdClient: n, first: int64(i) * loadBlocks, rng: rand.New(rand.NewPCG(uint64(i), 1))}
		l.workers = append(l.workers, w)
		go func() { errs <- l.run(w) }() // ends with the load
	}
	go func() {
		var all []error
		for range clients {
			err := <-errs
			if err != nil {
				l.stop.Store(true)
			}
			all = append(all, err)
		}
		l.ended <- errors.Join(all...)
	}()
	return l
}

// run works until the load ends, and then reads all blocks.
func (l *nbdLoad) run(w *nbdWorker) error {
	for !l.stop.Load() {
		if err := w.round(); err != nil {
			return err
		}
		l.rounds.Add(1)
		if time.Now().UnixNano() < l.busy.Load() {
			time.Sleep(pause)
		} else {
			time.Sleep(lightPause)
		}
	}
	for k := range int64(loadBlocks) {
		w.reads = append(w.reads, k)
	}
	return w.work(nil)
}

func (l *nbdLoad) stayBusy() { l.busy.Store(time.Now().Add(busyTime).UnixNano()) }

// more waits until a load has done some more rounds.
func (l *nbdLoad) more(t *testing.T, rounds int64) {
	t.Helper()
	limit := time.Now().Add(60 * time.Second)
	for want := l.rounds.Load() + rounds; l.rounds.Load() < want; time.Sleep(10 * time.Millisecond) {
		l.stayBusy()
		select {
		case err := <-l.ended:
			t.Fatalf("the load ended after %d rounds: %v", l.rounds.Load(), err)
		default:
		}
		if time.Now().After(limit) {
			t.Fatalf("the load stands after %d rounds", l.rounds.Load())
		}
	}
}

func (l *nbdLoad) end(t *testing.T) {
	t.Helper()
	l.stop.Store(true)
	if err := <-l.ended; err != nil {
		t.Errorf("after %d rounds: %v", l.rounds.Load(), err)
	}
}

// wantFile compares what the load, which has ended, has written with a namespace's file.
func (l *nbdLoad) wantFile(t *testing.T, path string) {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range l.workers {
		for k := range int64(loadBlocks) {
			if err := w.check(all[(w.first+k)*loadBlock:][:loadBlock], k); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// An nbdWorker is one client with the expected state of its blocks.
type nbdWorker struct {
	*nbdClient
	first   int64
	model   [loadBlocks]uint64 // number of each block's last write; 0: never written
	number  uint64
	rng     *rand.Rand
	reads   []int64 // blocks to be read next
	buffers [loadBlocks][loadBlock]byte
}

// round writes some blocks while others are read, and flushes from time to time.
func (w *nbdWorker) round() error {
	var rs []nbdRequest
	for i, k := range w.rng.Perm(loadBlocks)[:loadDepth] {
		if i%2 == 0 {
			w.reads = append(w.reads, int64(k))
			continue
		}
		w.number++
		w.model[k] = w.number
		b := w.buffers[k][:]
		w.fill(b, int64(k))
		rs = append(rs, nbdRequest{command: nbdWrite, off: (w.first + int64(k)) * loadBlock, data: b})
	}
	if w.rng.IntN(8) == 0 {
		rs = append(rs, nbdRequest{command: nbdFlush})
	}
	return w.work(rs)
}

// work executes requests and the reads, and verifies the data read.
func (w *nbdWorker) work(rs []nbdRequest) error {
	reads := w.reads
	w.reads = w.reads[:0]
	for _, k := range reads {
		rs = append(rs, nbdRequest{command: nbdRead, off: (w.first + k) * loadBlock, data: w.buffers[k][:]})
	}
	if err := w.all(rs); err != nil {
		return err
	}
	for _, k := range reads {
		if err := w.check(w.buffers[k][:], k); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the expected content of a block.
func (w *nbdWorker) fill(b []byte, k int64) {
	for i := 0; i < len(b); i += 16 {
		binary.LittleEndian.PutUint64(b[i:], uint64(w.first+k))
		binary.LittleEndian.PutUint64(b[i+8:], w.model[k])
	}
}

func (w *nbdWorker) check(b []byte, k int64) error {
	if w.model[k] == 0 {
		return nil // written by another load
	}
	var want [loadBlock]byte
	w.fill(want[:], k)
	if bytes.Equal(b, want[:]) {
		return nil
	}
	return fmt.Errorf("block %d holds write %d of block %d, write %d was acknowledged",
		w.first+k, binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b), w.model[k])
}
