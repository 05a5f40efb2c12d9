package record

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Table records the writes to each block of a namespace. All processes that have it open share it. A block may be
// written by one goroutine and read by any.
type Table struct {
	space  uint32
	memory []byte
	blocks []entry
}

// An entry holds write numbers. durable and settled never exceed issued.
type entry struct {
	issued  atomic.Uint64 // the last write that was begun
	settled atomic.Uint64 // the last write that was certainly executed: acknowledged, or seen by a read
	durable atomic.Uint64 // the last write that was acknowledged with FUA, or before a Flush that was acknowledged
}

const entrySize = int64(unsafe.Sizeof(entry{}))

// Open opens the table of a namespace with the given number of blocks. If the file does not exist it is created, with
// no block written.
func Open(path string, space uint32, blocks int) (*Table, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(blocks) * entrySize
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case info.Size() == 0:
		if err := f.Truncate(size); err != nil {
			return nil, err
		}
	case info.Size() != size:
		return nil, fmt.Errorf("%s is of a namespace with %d blocks, and not with %d", path, info.Size()/entrySize, blocks)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Table{space, memory, unsafe.Slice((*entry)(unsafe.Pointer(&memory[0])), blocks)}, nil
}

// Close unmaps the table.
func (t *Table) Close() error { return unix.Munmap(t.memory) }

// Blocks returns the number of blocks of the namespace.
func (t *Table) Blocks() int { return len(t.blocks) }

// Begin begins a write of a block: it returns the write's number and sets p to its content.
func (t *Table) Begin(p []byte, block int) uint64 {
	number := t.blocks[block].issued.Add(1)
	Fill(p, Block{t.space, uint64(block)}, number)
	return number
}

// Acknowledged records that a write succeeded.
func (t *Table) Acknowledged(block int, number uint64, fua bool) {
	raise(&t.blocks[block].settled, number)
	if fua {
		raise(&t.blocks[block].durable, number)
	}
}

// Flushed records that a Flush succeeded that was begun after this write was acknowledged.
func (t *Table) Flushed(block int, number uint64) { raise(&t.blocks[block].durable, number) }

// InDoubt reports whether it is unknown whether the last write of a block was executed.
func (t *Table) InDoubt(block int) bool {
	e := &t.blocks[block]
	return e.settled.Load() < e.issued.Load()
}

// Floor returns the smallest number that a read that begins now may return.
func (t *Table) Floor(block int) uint64 { return t.blocks[block].settled.Load() }

// Durable returns the number of the last durable write of a block, which survives the target.
func (t *Table) Durable(block int) uint64 { return t.blocks[block].durable.Load() }

// A Violation is a block with wrong content.
type Violation struct {
	Block Block
	What  string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("block %d of namespace %d %s", v.Block.Index, v.Block.Space, v.What)
}

// Check judges the content p that a read returned for a block. floor is the block's Floor when the read began. Check
// must be called after the read has ended. The error is a [*Violation].
func (t *Table) Check(p []byte, block int, floor uint64) error {
	at, e := Block{t.space, uint64(block)}, &t.blocks[block]
	ceiling := e.issued.Load()
	number, err := Parse(p, at)
	switch {
	case err != nil:
		return &Violation{at, fmt.Sprintf("%v; writes %d to %d may be there", err, floor, ceiling)}
	case number > ceiling:
		return &Violation{at, fmt.Sprintf("has write %d, and %d is the last that was begun", number, ceiling)}
	case number < floor:
		what := "write %d had been acknowledged, or seen, before the read began"
		if floor <= e.durable.Load() {
			what = "write %d had been acknowledged and was durable before the read began"
		}
		return &Violation{at, fmt.Sprintf("has write %d, but "+what+": it is lost", number, floor)}
	}
	raise(&e.settled, number)
	return nil
}

// IsViolation reports whether an error is a violation.
func IsViolation(err error) bool {
	var v *Violation
	return errors.As(err, &v)
}

func raise(a *atomic.Uint64, to uint64) {
	for old := a.Load(); old < to && !a.CompareAndSwap(old, to); old = a.Load() {
	}
}
