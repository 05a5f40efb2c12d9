package shard

import (
	"fmt"
	"math/bits"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// MaxBuffer is the largest buffer of an arena in bytes.
const MaxBuffer = PageSize << maxOrder

const (
	maxOrder = 8 // 1 MiB
	noPage   = int32(-1)
)

// An Arena allocates buffers from one slab: powers of two from [PageSize] to [MaxBuffer], each aligned to its size,
// split and joined as buddies. Its methods do not allocate Go memory. Register Bytes once with every protection domain
// of the shard's queue pairs. If several parties use the arena, each allocates through its own [Share].
type Arena struct {
	slab *Slab
	mem  []byte
	head [maxOrder + 1]int32 // free blocks of each order
	page []arenaPage
	free int // bytes

	own    Share            // used without parties; may hold all that is free
	line   list.List[Share] // shares with waiters, in the order of their turns
	queued int              // the length of line
	short  *Share           // the share whose turn it was when no block was large enough
	ready  bool             // memory was freed while shares wait
}

// An arenaPage describes the block that starts at this page.
type arenaPage struct {
	next, prev int32
	state      pageState
	order      uint8
}

type pageState uint8

const (
	pageInner pageState = iota // not the start of a block
	pageFree
	pageUsed
)

// A Buffer is a block of an arena. The zero value is no buffer.
type Buffer struct {
	b     []byte
	share *Share
	page  int32
}

// Bytes returns the buffer's memory; its length is a power of two.
func (b Buffer) Bytes() []byte { return b.b }

// Valid reports whether b is a buffer.
func (b Buffer) Valid() bool { return b.b != nil }

// Arena returns the arena of the buffer.
func (b Buffer) Arena() *Arena { return b.share.arena }

// NewArena maps an arena of size bytes, rounded up to whole mebibytes.
func NewArena(size int) (*Arena, error) {
	size = (size + MaxBuffer - 1) &^ (MaxBuffer - 1)
	// Allocate one buffer more, so that the first one can start at a multiple of its size.
	slab, err := NewSlab(size + MaxBuffer)
	if err != nil {
		return nil, err
	}
	a := &Arena{slab: slab, mem: alignTo(slab.Bytes(), MaxBuffer)[:size], page: make([]arenaPage, size/PageSize)}
	for i := range a.head {
		a.head[i] = noPage
	}
	for p := len(a.page) - 1<<maxOrder; p >= 0; p -= 1 << maxOrder {
		a.push(int32(p), maxOrder)
	}
	a.free = size
	a.own = Share{arena: a, whole: true}
	return a, nil
}

// Bytes returns all memory of the arena, to be registered.
func (a *Arena) Bytes() []byte { return a.mem }

// Free returns how many bytes are not allocated.
func (a *Arena) Free() int { return a.free }

// Close unmaps the arena.
func (a *Arena) Close() error { return a.slab.Close() }

// Own returns the share for the user of an arena without parties, and for buffers that belong to no party.
func (a *Arena) Own() *Share { return &a.own }

// Alloc is [Share.Alloc] of the arena's own share.
func (a *Arena) Alloc(size int) (Buffer, bool) { return a.own.Alloc(size) }

func (a *Arena) take(size int) (Buffer, bool) {
	order := orderOf(size)
	from := order
	for a.head[from] == noPage {
		if from++; from > maxOrder {
			return Buffer{}, false
		}
	}
	p := a.head[from]
	a.unlink(p)
	for from > order {
		from--
		a.push(p+1<<from, from)
	}
	a.page[p].state, a.page[p].order = pageUsed, uint8(order)
	n := PageSize << order
	a.free -= n
	start := int(p) * PageSize
	return Buffer{b: a.mem[start : start+n : start+n], page: p}, true
}

// orderOf returns the exponent of the smallest block that holds size bytes, in pages.
func orderOf(size int) int {
	if size < 0 || size > MaxBuffer {
		panic(fmt.Sprintf("arena: buffer of %d bytes", size))
	}
	if size <= PageSize {
		return 0
	}
	return bits.Len(uint(size-1) / PageSize)
}

// Excuse moves the buffer from its party's share to the arena's own and returns it; use only the result from then on.
// It is for a buffer that the party cannot give back, so that the party may allocate others.
func (b Buffer) Excuse() Buffer {
	own := &b.share.arena.own
	b.share.held -= len(b.b)
	own.held += len(b.b)
	b.share = own
	b.share.arena.ready = b.share.arena.line.First() != nil
	return b
}

// Release frees the buffer. The shard serves waiters later in the same turn.
func (b Buffer) Release() { b.share.arena.Release(b) }

// Release is [Buffer.Release].
func (a *Arena) Release(b Buffer) {
	p := b.page
	if b.b == nil || a.page[p].state != pageUsed {
		panic("arena: buffer released that was not handed out")
	}
	order := int(a.page[p].order)
	a.free += PageSize << order
	b.share.held -= PageSize << order
	a.page[p].state = pageInner
	for order < maxOrder {
		buddy := p ^ 1<<order
		if a.page[buddy].state != pageFree || int(a.page[buddy].order) != order {
			break
		}
		a.unlink(buddy)
		p &^= 1 << order
		order++
	}
	a.push(p, order)
	a.ready = a.line.First() != nil
}

func (a *Arena) push(p int32, order int) {
	next := a.head[order]
	a.page[p] = arenaPage{next: next, prev: noPage, state: pageFree, order: uint8(order)}
	if next != noPage {
		a.page[next].prev = p
	}
	a.head[order] = p
}

func (a *Arena) unlink(p int32) {
	e := &a.page[p]
	if e.prev == noPage {
		a.head[e.order] = e.next
	} else {
		a.page[e.prev].next = e.next
	}
	if e.next != noPage {
		a.page[e.next].prev = e.prev
	}
	e.state = pageInner
}
