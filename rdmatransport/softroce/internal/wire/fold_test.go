package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestFold compares with hash/crc32, at all alignments.
func TestFold(t *testing.T) {
	if !canFold {
		t.Skip("this processor lacks VPCLMULQDQ on 512 bits: hash/crc32 alone is used")
	}
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 64+2*foldLeast+128)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	for at := range 64 {
		for k := foldBlock; k <= 3*foldBlock; k += foldBlock {
			for n := 0; n <= 2*foldLeast+128; n += foldBlock {
				if n > 0 && n < foldLeast {
					continue
				}
				crc := random.Uint32()
				got := fold(crc, &b[3], k, &b[at], n)
				want := crc32.Update(crc32.Update(crc, crc32.IEEETable, b[3:3+k]), crc32.IEEETable, b[at:at+n])
				if got != want {
					t.Fatalf("%d bytes, then %d from %d: %#x, want %#x", k, n, at, got, want)
				}
			}
		}
	}
}

// TestICRCWithoutFold: the results with and without fold are the same.
func TestICRCWithoutFold(t *testing.T) {
	var c ICRC
	random := rand.New(rand.NewPCG(3, 4))
	for n := 16; n < 5000; n += 4 {
		b := packet(&c, &path4, 9, n, random)
		head := append([]byte(nil), b[:n-ICRCSize]...)
		var lead [64]byte
		k := path4.put(lead[:], 9, n)
		whole := append(lead[:k:k], head...)
		whole[k+4] = 0xff
		want := crc32.Update(icrcSeeds[0], crc32.IEEETable, whole)
		if got := c.Sum(&path4, 9, head[:BTHSize], [][]byte{head[BTHSize:]}, 0); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}

// TestPrefetch: any length is valid, and nothing is changed.
func TestPrefetch(t *testing.T) {
	b := make([]byte, 4096)
	for _, n := range []int{0, 1, 63, 64, 65, 1024, 4096} {
		Prefetch(b[len(b)-n:])
	}
	if !bytes.Equal(b, make([]byte, 4096)) {
		t.Error("the memory has changed")
	}
}
