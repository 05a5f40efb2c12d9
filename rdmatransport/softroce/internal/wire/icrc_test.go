package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"testing"
)

var (
	path4 = NewPath(netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791"))
	path6 = NewPath(netip.MustParseAddrPort("[fd00::1]:49152"), netip.MustParseAddrPort("[fd00::2]:4791"))
)

func TestSeedIsEightBytesOfOnes(t *testing.T) {
	ones := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	want := crc32.ChecksumIEEE(ones)
	for k, seed := range icrcSeeds {
		if got := crc32.Update(seed, crc32.IEEETable, make([]byte, k)); got != want {
			t.Errorf("seed %d leads to %#x, want %#x", k, got, want)
		}
	}
}

// packet returns n bytes of UDP payload, a multiple of 4, with a correct ICRC.
func packet(c *ICRC, p *Path, id uint16, n int, random *rand.Rand) []byte {
	b := make([]byte, n)
	for i := range n - ICRCSize {
		b[i] = byte(random.Uint32())
	}
	end := n - ICRCSize
	sum := c.Sum(p, id, b[:BTHSize], [][]byte{b[BTHSize:end]}, 0)
	binary.LittleEndian.PutUint32(b[end:], sum)
	return b
}

func TestSumInPiecesIsTheSame(t *testing.T) {
	var c ICRC
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range []*Path{&path4, &path6} {
		for range 500 {
			n := 16 + 4*random.IntN(400)
			b := packet(&c, p, 77, n, random)
			end := n - ICRCSize
			want := binary.LittleEndian.Uint32(b[end:])
			head := BTHSize + random.IntN(min(40, n)-15)
			var pieces [][]byte
			for at := head; at < end; {
				k := 1 + random.IntN(end-at)
				pieces = append(pieces, b[at:at+k], nil)
				at += k
			}
			if got := c.Sum(p, 77, b[:head], pieces, 0); got != want {
				t.Fatalf("%d bytes, header %d: %#x, want %#x", n, head, got, want)
			}
			if !c.Verify(p, 77, b) || p.Is4() && c.Verify(p, 78, b) {
				t.Fatal("Verify is wrong")
			}
		}
	}
}

func TestSumCountsPad(t *testing.T) {
	var c ICRC
	b := make([]byte, BTHSize)
	want := c.Sum(&path4, 1, b, [][]byte{{1, 0, 0, 0}}, 0)
	if got := c.Sum(&path4, 1, b, [][]byte{{1}}, 3); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

func TestSetSourcePort(t *testing.T) {
	for _, addr := range []string{"10.0.0.1", "fd00::1"} {
		a := netip.MustParseAddr(addr)
		dst := netip.AddrPortFrom(a, Port)
		p := NewPath(netip.AddrPortFrom(a, 1), dst)
		p.SetSourcePort(0xc123)
		if p != NewPath(netip.AddrPortFrom(a, 0xc123), dst) {
			t.Errorf("%s: not the same as a new path", addr)
		}
	}
	mapped := NewPath(netip.MustParseAddrPort("[::ffff:10.0.0.1]:49152"), netip.MustParseAddrPort("[::ffff:10.0.0.2]:4791"))
	if mapped != path4 {
		t.Error("an IPv4-mapped address is not taken as IPv4")
	}
}

func TestIdentifyFindsEveryIdentification(t *testing.T) {
	var c ICRC
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{16, 32, 80, 300, 1044, 4140} {
		b := packet(&c, &path4, 0, n, random)
		end := n - ICRCSize
		for id := range 1 << 16 {
			if n > 300 && id%97 != 0 {
				continue
			}
			sum := c.Sum(&path4, uint16(id), b[:BTHSize], [][]byte{b[BTHSize:end]}, 0)
			binary.LittleEndian.PutUint32(b[end:], sum)
			if got, ok := c.Identify(&path4, b); !ok || got != uint16(id) {
				t.Fatalf("%d bytes: found %#x, %v; want %#x", n, got, ok, id)
			}
		}
	}
}

// Every flip of one bit that the ICRC covers is detected, at every distance from the identification that the largest
// packet has. A bit k places after the identification's end changes the difference, brought back to that place, by
// about x^-k. Whether it looks like an identification depends on k alone, so one packet of the largest size covers
// all shorter ones.
func TestIdentifyCatchesEveryFlippedBit(t *testing.T) {
	var c ICRC
	const largest = BTHSize + MaxHeaderSize + 4096 + ICRCSize
	b := packet(&c, &path4, 0x1234, largest, rand.New(rand.NewPCG(5, 6)))
	for at := range b {
		if at == 4 {
			continue // masked
		}
		for bit := range 8 {
			b[at] ^= 1 << bit
			if id, ok := c.Identify(&path4, b); ok {
				t.Errorf("bit %d of byte %d passes with identification %#x", bit, at, id)
			}
			b[at] ^= 1 << bit
		}
		if testing.Short() && at > 256 {
			break
		}
	}
	for bit := range 8 {
		b[4] ^= 1 << bit
		if id, ok := c.Identify(&path4, b); !ok || id != 0x1234 {
			t.Error("a congestion mark is taken as corruption")
		}
	}
}

// In a short packet, the ICRC is at another distance.
func TestIdentifyCatchesFlipsInShortPackets(t *testing.T) {
	var c ICRC
	for n := 16; n < 400; n += 4 {
		b := packet(&c, &path4, uint16(n), n, rand.New(rand.NewPCG(7, uint64(n))))
		for at := range b {
			b[at] ^= 1 << (n / 4 & 7)
			if _, ok := c.Identify(&path4, b); ok && at != 4 {
				t.Errorf("%d bytes: byte %d", n, at)
			}
			b[at] ^= 1 << (n / 4 & 7)
		}
	}
}

// Other corruption passes for one of 2^16 identifications among 2^32 differences.
func TestIdentifyMissesOneIn65536(t *testing.T) {
	var c ICRC
	random := rand.New(rand.NewPCG(9, 10))
	b := packet(&c, &path4, 0, 80, random)
	const tries = 1 << 21 // 32 passes expected, standard deviation 5.7
	passed := 0
	for range tries {
		b[20+random.IntN(40)] ^= byte(1 + random.IntN(255))
		b[20+random.IntN(40)] ^= byte(1 + random.IntN(255))
		binary.LittleEndian.PutUint32(b[76:], random.Uint32())
		if _, ok := c.Identify(&path4, b); ok {
			passed++
		}
	}
	if passed < 8 || passed > 64 {
		t.Errorf("%d of %d corrupt packets passed, want about 32", passed, tries)
	}
}

func TestIdentifyIsExactOnIPv6(t *testing.T) {
	var c ICRC
	b := packet(&c, &path6, 0, 80, rand.New(rand.NewPCG(11, 12)))
	if id, ok := c.Identify(&path6, b); !ok || id != 0 {
		t.Fatal("an intact packet is refused")
	}
	// The change that identification 1 would cause on IPv4.
	sum := binary.LittleEndian.Uint32(b[76:]) ^ c.Sum(&path4, 0, b[:BTHSize], [][]byte{b[BTHSize:76]}, 0) ^
		c.Sum(&path4, 1, b[:BTHSize], [][]byte{b[BTHSize:76]}, 0)
	binary.LittleEndian.PutUint32(b[76:], sum)
	if _, ok := c.Identify(&path6, b); ok {
		t.Error("a difference that only an identification excuses passes")
	}
}

func TestICRCRefusesShortPackets(t *testing.T) {
	var c ICRC
	for n := range BTHSize + ICRCSize {
		if _, ok := c.Identify(&path4, make([]byte, n)); ok || c.Verify(&path4, 0, make([]byte, n)) {
			t.Errorf("%d bytes pass", n)
		}
	}
}

func TestICRCAllocatesNothing(t *testing.T) {
	var c ICRC
	b := packet(&c, &path4, 5, 1060, rand.New(rand.NewPCG(13, 14)))
	pieces := [][]byte{b[28:500], b[500:1055]}
	if n := testing.AllocsPerRun(100, func() {
		c.Sum(&path4, 1, b[:28], pieces, 1)
		if _, ok := c.Identify(&path4, b); !ok {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkICRC(b *testing.B) {
	var c ICRC
	random := rand.New(rand.NewPCG(15, 16))
	for _, n := range []int{20, 84, 1056, 4128} {
		buf := packet(&c, &path4, 5, n, random)
		pieces := [][]byte{buf[16 : n-ICRCSize]}
		b.Run(fmt.Sprintf("Sum/%d", n), func(b *testing.B) {
			for b.Loop() {
				c.Sum(&path4, 1, buf[:16], pieces, 0)
			}
		})
		b.Run(fmt.Sprintf("Verify/%d", n), func(b *testing.B) {
			for b.Loop() {
				c.Verify(&path4, 5, buf)
			}
		})
		b.Run(fmt.Sprintf("Identify/%d", n), func(b *testing.B) {
			for b.Loop() {
				c.Identify(&path4, buf)
			}
		})
	}
}
