package backendtest

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

func testWriteZeroes(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block := c.block()
	half := c.info.Size / 2 &^ (block - 1)
	for _, length := range []int64{block, 3 * block, 1<<20 + block, half} {
		for _, variant := range []backend.Request{{}, {FUA: true}, {Deallocate: true}, {Deallocate: true, FUA: true}} {
			if length == half && variant.FUA {
				continue
			}
			offset := 5 * block
			r := backend.Request{Op: backend.OpWriteZeroes, Offset: offset, Length: length,
				FUA: variant.FUA, Deallocate: variant.Deallocate}
			checkRange(c, r, true)
		}
	}
	c.ok(backend.Request{Op: backend.OpWriteZeroes, Offset: block})
}

// checkRange writes around and inside the request's range, executes the request, and checks that nothing else changed.
func checkRange(c *client, r backend.Request, mustZero bool) {
	c.t.Helper()
	block := c.block()
	b := c.buffer(r.Length + 2*block)
	fill(b, uint64(r.Length))
	c.ok(write(r.Offset-block, b))
	c.ok(r)
	got := c.readBack(r.Offset-block, r.Length+2*block)
	inside := got[block : block+r.Length]
	zero := isZero(inside)
	if !zero && (mustZero || !mixed(inside, b[block:], block)) {
		c.t.Errorf("%+v: range holds neither zeroes nor what it held before", r)
	}
	if !bytes.Equal(got[:block], b[:block]) || !bytes.Equal(got[block+r.Length:], b[block+r.Length:]) {
		c.t.Errorf("%+v: changed a block outside its range", r)
	}
}

// mixed reports whether each block of got is either zero or unchanged from old.
func mixed(got, old []byte, block int64) bool {
	for ; len(got) > 0; got, old = got[block:], old[block:] {
		if !isZero(got[:block]) && !bytes.Equal(got[:block], old[:block]) {
			return false
		}
	}
	return true
}

func testDeallocate(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block := c.block()
	half := c.info.Size / 2 &^ (block - 1)
	for _, length := range []int64{block, 1<<20 + block, half} {
		checkRange(c, backend.Request{Op: backend.OpDeallocate, Offset: 5 * block, Length: length}, false)
	}
	c.ok(backend.Request{Op: backend.OpDeallocate, Offset: block})
	if !c.info.Deallocate {
		return
	}
	const length = 2 << 20
	b := c.buffer(length)
	fill(b, 1)
	r := write(0, b)
	r.FUA = true // some file systems allocate when they write back
	c.ok(r)
	before, err := s.Allocated()
	if err != nil {
		t.Fatal(err)
	}
	c.ok(backend.Request{Op: backend.OpDeallocate, Length: length})
	after, err := s.Allocated()
	if err != nil {
		t.Fatal(err)
	}
	if before == c.info.Size && after == c.info.Size {
		t.Log("the store does not know what is in use")
		return
	}
	if before-after < length/2 {
		t.Errorf("allocated %d bytes before deallocating %d, %d after", before, length, after)
	}
}
