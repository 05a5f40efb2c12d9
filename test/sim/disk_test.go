package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A block of the disk holds a value, the number of the write that it comes from, and the block's number, repeated.
// Value 0 is a block of zeroes.
func fill(b []byte, block int, v value) {
	if v == 0 {
		clear(b)
		return
	}
	for i := 0; i < len(b); i += 16 {
		binary.LittleEndian.PutUint64(b[i:], uint64(block)+1)
		binary.LittleEndian.PutUint64(b[i+8:], uint64(v))
	}
}

// valueOf returns the value of a block. The block must not be torn and must have the given number.
func valueOf(b []byte, block int) (value, error) {
	where, v := binary.LittleEndian.Uint64(b), value(binary.LittleEndian.Uint64(b[8:]))
	want := uint64(block) + 1
	if v == 0 {
		want = 0
	}
	for i := 0; i < len(b); i += 16 {
		if w, x := binary.LittleEndian.Uint64(b[i:]), value(binary.LittleEndian.Uint64(b[i+8:])); w != want || x != v {
			return 0, fmt.Errorf("block %d has %v of block %d at its start, and at byte %d %v of block %d", block, v, int64(where)-1, i, x, int64(w)-1)
		}
	}
	return v, nil
}

// A disk stores the targets' blocks. It has a volatile cache, latency and faults, and outlives the processes that have
// it open.
type disk struct {
	w         *world
	blockSize int
	volatile  bool

	mu sync.Mutex // guards what follows, and all queues
	// versions holds, for each block, the values that a power failure may leave. The first is durable; reads return the
	// last.
	versions [][]value
	rng      *rand.Rand
	latched  error // set after a flush failed

	least, slow                      time.Duration // added to the latency of half of the operations
	readErrors, writeErrors, noFlush float64       // shares of operations that fail
	full                             bool
}

func newDisk(w *world, blockSize, blocks int, volatile bool) *disk {
	d := &disk{w: w, blockSize: blockSize, volatile: volatile, rng: w.stream("disk")}
	for range blocks {
		d.versions = append(d.versions, []value{0})
	}
	return d
}

// powerFails sets each block to one of the values that it had since it was last durable, and returns the values that
// were not durable, by block.
func (d *disk) powerFails() (volatile [][]value) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := 0
	for i, vs := range d.versions {
		k := len(vs) - 1
		if d.rng.IntN(3) > 0 {
			k = d.rng.IntN(len(vs))
		}
		if k < len(vs)-1 {
			lost++
		}
		volatile = append(volatile, slices.Clone(vs[1:]))
		d.versions[i] = []value{vs[k]}
	}
	d.latched = nil
	d.w.note("disk", "loses power; %d of %d blocks go back to an older value", lost, len(d.versions))
	return volatile
}

// repair ends all faults except a failed flush, for which see Clear.
func (d *disk) repair() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.least, d.slow, d.readErrors, d.writeErrors, d.noFlush, d.full = 0, 0, 0, 0, 0, false
}

func (d *disk) setSlow(least, most time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.least, d.slow = least, most
}

var errMedium = errors.New("medium error")

// An opened is the disk as opened by one process. It implements [backend.Store].
type opened struct {
	d      *disk
	name   string
	queues []*diskQueue // under the disk's mutex
	dead   bool
}

var (
	_ backend.Store   = (*opened)(nil)
	_ backend.Latcher = (*opened)(nil)
)

func (d *disk) open(name string) *opened { return &opened{d: d, name: name} }

func (o *opened) Info() backend.Info {
	return backend.Info{
		Size: int64(len(o.d.versions) * o.d.blockSize), BlockSize: o.d.blockSize, Alignment: 1,
		Volatile: o.d.volatile, Compare: true,
	}
}

func (o *opened) Allocated() (int64, error) { return o.Info().Size, nil }

// Failed implements [backend.Latcher].
func (o *opened) Failed() error {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	return o.d.latched
}

// Clear implements [backend.Latcher].
func (o *opened) Clear() error {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	o.d.latched = nil
	return nil
}

func (o *opened) NewQueue(depth int, notify func()) (backend.Queue, error) {
	if depth < 1 {
		return nil, fmt.Errorf("queue of %d", depth)
	}
	if notify == nil {
		notify = func() {}
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	q := &diskQueue{o: o, depth: depth, notify: notify, results: backend.NewResults(depth)}
	o.queues = append(o.queues, q)
	return q, nil
}

func (o *opened) Close() error { return nil }

// kill ends the operations that a process has begun: each has been executed fully, partly or not at all. Operations
// submitted later are not executed.
func (o *opened) kill() {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	o.dead = true
	for _, q := range o.queues {
		for _, p := range q.pending {
			if o.d.rng.IntN(2) == 0 {
				_ = p.run(o.d.rng.IntN(2) == 0) // the error is not reported to anyone
			}
			q.results.Push(backend.Result{Tag: p.Tag, Err: backend.ErrClosed})
		}
		q.pending = nil
		go q.notify() // as in finish
	}
}

type diskQueue struct {
	o       *opened
	depth   int
	notify  func()
	pending []*pending
	results backend.Results
	taken   int
	closed  bool
}

// A pending is an operation in progress.
type pending struct {
	backend.Request
	q    *diskQueue
	done []bool // blocks
	err  error
}

func (q *diskQueue) Submit(rs []backend.Request) int {
	d := q.o.d
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for ; n < len(rs) && q.taken < q.depth && !q.closed; n++ {
		q.taken++
		r, info := rs[n], q.o.Info()
		if err := info.Check(&r); err != nil || q.o.dead {
			if err == nil {
				err = backend.ErrClosed
			}
			q.results.Push(backend.Result{Tag: r.Tag, Err: err})
			continue
		}
		p := &pending{Request: r, q: q, done: make([]bool, r.Length/int64(d.blockSize))}
		q.pending = append(q.pending, p)
		wait := time.Duration(10000 + d.rng.IntN(190000))
		if d.slow > 0 && d.rng.IntN(2) == 0 {
			wait += d.least + time.Duration(d.rng.Int64N(int64(d.slow-d.least)))
		}
		if len(p.done) > 1 {
			time.AfterFunc(wait/2, p.begin)
		}
		time.AfterFunc(wait, p.finish)
	}
	return n
}

// begin executes some blocks of an operation on several blocks.
func (p *pending) begin() {
	d := p.q.o.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(p.q.pending, p) {
		p.err = p.run(true)
	}
}

func (p *pending) finish() {
	q := p.q
	d := q.o.d
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(q.pending, p)
	if i < 0 {
		return
	}
	err := p.run(false)
	if p.err != nil {
		err = p.err
	}
	q.pending = slices.Delete(q.pending, i, i+1)
	q.results.Push(backend.Result{Tag: p.Tag, Err: err})
	go q.notify() // ends at once; the shard's own locks come before the disk's
}

// run executes the remaining blocks, or a random part of them if some is true.
func (p *pending) run(some bool) error {
	d := p.q.o.d
	if p.Op == backend.OpFlush {
		return d.flush()
	}
	err := d.refuses(p.Op)
	if err != nil && (err != errMedium || d.rng.IntN(2) == 0) {
		return err
	}
	first := int(p.Offset) / d.blockSize
	if p.Op == backend.OpCompareAndWrite {
		return cmp.Or(p.compareAndWrite(first), err)
	}
	for i := range p.done {
		if p.done[i] || some && d.rng.IntN(2) == 0 {
			continue
		}
		p.done[i] = true
		switch p.Op {
		case backend.OpRead:
			vs := d.versions[first+i]
			fill(p.Buf[i*d.blockSize:][:d.blockSize], first+i, vs[len(vs)-1])
		case backend.OpWrite:
			p.q.o.write(first+i, p.Buf[i*d.blockSize:][:d.blockSize], p.FUA)
		case backend.OpWriteZeroes:
			d.put(first+i, 0, p.FUA)
		}
	}
	return err // an error although it has been executed
}

func (p *pending) compareAndWrite(first int) error {
	d, info := p.q.o.d, p.q.o.Info()
	expected, next, room := p.Parts(&info)
	for i := range p.done {
		vs, at := d.versions[first+i], i*d.blockSize
		fill(room[at:][:d.blockSize], first+i, vs[len(vs)-1])
	}
	if !slices.Equal(expected, room) {
		return backend.ErrMiscompare
	}
	for i := range p.done {
		p.q.o.write(first+i, next[i*d.blockSize:][:d.blockSize], p.FUA)
	}
	return nil
}

// refuses returns the error of an operation that fails because of a fault.
func (d *disk) refuses(op backend.Op) error {
	switch {
	case op == backend.OpRead:
		if d.rng.Float64() < d.readErrors {
			return errMedium
		}
	case d.latched != nil:
		return backend.ErrFailed
	case d.full:
		return backend.ErrNoSpace
	case d.rng.Float64() < d.writeErrors:
		return errMedium
	}
	return nil
}

// write writes a block to the disk. It checks that the block is not torn and that its host may write.
func (o *opened) write(block int, b []byte, fua bool) {
	v, err := valueOf(b, block)
	if err != nil {
		o.d.w.violation("%s writes to the disk: %v", o.name, err)
		return
	}
	if o.d.w.isFenced(v.host()) {
		o.d.w.violation("%s writes %v to block %d, of host %d, whose registration was preempted", o.name, v, block, v.host())
	}
	o.d.put(block, v, fua)
}

func (d *disk) put(block int, v value, fua bool) {
	if fua || !d.volatile {
		d.versions[block] = append(d.versions[block][:0], v)
	} else {
		d.versions[block] = append(d.versions[block], v)
	}
}

func (d *disk) flush() error {
	switch {
	case d.latched != nil:
		return backend.ErrFailed
	case d.rng.Float64() < d.noFlush:
		d.latched = errMedium
		d.w.note("disk", "a flush fails, and it takes no more writes")
		return errMedium
	}
	for i, vs := range d.versions {
		d.versions[i] = append(vs[:0], vs[len(vs)-1])
	}
	return nil
}

func (q *diskQueue) Poll(rs []backend.Result) int {
	q.o.d.mu.Lock()
	defer q.o.d.mu.Unlock()
	n := q.results.Drain(rs)
	q.taken -= n
	return n
}

func (q *diskQueue) Idle() bool {
	q.o.d.mu.Lock()
	defer q.o.d.mu.Unlock()
	return q.taken == 0
}

func (q *diskQueue) Close() error {
	q.o.d.mu.Lock()
	defer q.o.d.mu.Unlock()
	q.closed, q.pending, q.taken = true, nil, 0
	q.o.queues = slices.DeleteFunc(q.o.queues, func(x *diskQueue) bool { return x == q })
	return nil
}
