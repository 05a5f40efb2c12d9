package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/test/internal/record"
)

// most is the maximum number of blocks of a request.
const most = 16

// A worker writes its own blocks and reads all blocks, in batches.
type worker struct {
	*client
	space  *Space
	table  *record.Table
	random *rand.Rand
	first  int // of its own blocks
	count  int

	again    func() (disk, error) // reconnects; nil: the disk reconnects itself
	disk     disk
	writesAt time.Time      // the time from which it may write
	cursor   int            // next block of the pass over all blocks
	dirty    map[int]uint64 // acknowledged but not yet flushed
	batch    []request
	buffers  [][]byte
}

// run works until the client ends.
func (w *worker) run() {
	w.dirty = map[int]uint64{}
	for range w.spec.Depth {
		w.buffers = append(w.buffers, make([]byte, most*w.space.BlockSize))
	}
	for !w.over.Load() {
		w.prepare()
		w.disk.do(w.batch)
		if err := w.judge(); err != nil {
			w.fail(err)
			return
		}
		if w.inDoubt() && !w.reconnect() {
			return
		}
		time.Sleep(w.spec.Pace/2 + time.Duration(w.random.Int64N(int64(w.spec.Pace)+1)))
	}
}

// prepare makes the next batch. No block is written twice in it.
func (w *worker) prepare() {
	w.batch = w.batch[:0]
	chunks := w.random.Perm(w.count / most)
	for i := range w.spec.Depth {
		r := request{data: w.buffers[i]}
		blocks := 1 + w.random.IntN(most)
		switch what := w.random.IntN(16); {
		case what == 0 && i == 0:
			r.kind, blocks = flush, 0
		case what < 6 && len(chunks) > 0 && time.Now().After(w.writesAt):
			r.kind, r.fua = write, what == 1
			r.first = w.first + chunks[0]*most
			chunks = chunks[1:]
		case what < 8:
			r.first = w.first + w.random.IntN(w.count-blocks+1)
		case what < 10:
			r.first = w.random.IntN(w.table.Blocks() - blocks + 1)
		default:
			blocks = min(most, w.table.Blocks()-w.cursor)
			r.first, w.cursor = w.cursor, w.cursor+blocks
			if w.cursor == w.table.Blocks() {
				w.cursor = 0
			}
		}
		r.offset, r.data = int64(r.first)*int64(w.space.BlockSize), r.data[:blocks*w.space.BlockSize]
		w.begin(&r, blocks)
		w.batch = append(w.batch, r)
	}
}

// begin records the start of a request in the table.
func (w *worker) begin(r *request, blocks int) {
	for k := range blocks {
		switch r.kind {
		case read:
			r.floors = append(r.floors, w.table.Floor(r.first+k))
		case write:
			r.number = append(r.number, w.table.Begin(w.block(r, k), r.first+k))
		}
	}
}

func (w *worker) block(r *request, k int) []byte {
	return r.data[k*w.space.BlockSize:][:w.space.BlockSize]
}

// judge checks the results of a batch. An error ends the client.
func (w *worker) judge() error {
	acknowledged := map[int]uint64{}
	for i := range w.batch {
		r := &w.batch[i]
		w.count1(r)
		switch {
		case errors.Is(r.err, errConnection) && w.again != nil:
		case r.err != nil:
			return fmt.Errorf("%s of %d bytes at %d of namespace %d: %w", [...]string{"read", "write", "flush"}[r.kind],
				len(r.data), r.offset, w.space.NSID, r.err)
		case r.kind == read:
			for k := range r.floors {
				if err := w.table.Check(w.block(r, k), r.first+k, r.floors[k]); err != nil {
					return err
				}
			}
			if r.first+len(r.floors) == w.table.Blocks() && w.cursor == 0 {
				w.passes.Add(1)
			}
		case r.kind == write:
			for k, n := range r.number {
				w.table.Acknowledged(r.first+k, n, r.fua)
				acknowledged[r.first+k] = n
			}
		case r.kind == flush: // covers what was acknowledged before the batch began
			for block, n := range w.dirty {
				w.table.Flushed(block, n)
			}
			clear(w.dirty)
		}
	}
	for block, n := range acknowledged {
		w.dirty[block] = n
	}
	return nil
}

// count1 counts one request.
func (w *worker) count1(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.err != nil {
		w.counts.Errors[Kind(r.err.Error())]++
		return
	}
	w.counts.Latency.Count(r.took)
	switch r.kind {
	case read:
		w.counts.Reads++
		w.counts.Verified += uint64(len(r.floors))
		w.counts.ReadBytes += uint64(len(r.data))
	case write:
		w.counts.Writes++
		if r.fua {
			w.counts.FUA++
		}
		w.counts.Written += uint64(len(r.number))
		w.counts.WrittenBytes += uint64(len(r.data))
	case flush:
		w.counts.Flushes++
	}
}

// inDoubt reports whether the connection ended during the batch.
func (w *worker) inDoubt() bool {
	for i := range w.batch {
		if w.batch[i].err != nil {
			return true
		}
	}
	return false
}

// reconnect waits until it has a new connection; it returns false if the client ends. The worker may write again when
// the target can no longer execute earlier writes.
func (w *worker) reconnect() bool {
	w.writesAt = time.Now().Add(w.spec.Fence)
	_ = w.disk.close() // it has failed
	for !w.over.Load() {
		d, err := w.again()
		if err == nil {
			w.disk = d
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

var variable = regexp.MustCompile(`\d+(\.\d+)+(:\d+)?|0x[0-9a-f]+|\d+(\.\d+)?(s|ms|µs)?\b`)

// Kind returns an error's text without its variable parts, to count errors of the same kind.
func Kind(s string) string {
	s = variable.ReplaceAllString(strings.ReplaceAll(s, "\n", "; "), "#")
	if len(s) > 160 {
		s = s[:160]
	}
	return s
}
