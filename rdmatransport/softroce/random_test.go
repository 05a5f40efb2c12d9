package softroce

import (
	"math"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestNumbersAreRandom: an attacker that does not see a connection's packets has to guess its queue pair number, its
// communication ID, its starting PSN and its keys. Each bit is set with probability 1/2, no number follows from the
// one before, and numbers repeat no more often than random ones. Two devices have nothing in common.
func TestNumbersAreRandom(t *testing.T) {
	const n = 1 << 14
	for name, c := range map[string]struct {
		bits uint
		draw func(t *testing.T, d *Device) uint32
	}{
		"queue pair number": {24, func(_ *testing.T, d *Device) uint32 { return uint32(d.shards[0].newQPN()) }},
		"sequence number":   {24, func(_ *testing.T, d *Device) uint32 { return d.random() & 0xffffff }},
		"communication ID": {32, func(t *testing.T, d *Device) uint32 {
			e := d.shards[0].manager.engine
			id, err := e.Connect(0, cm.ConnectParams{To: netip.MustParseAddrPort("192.0.2.9:4420"), PathMTU: wire.MTUFor(1024)})
			if err != nil {
				t.Fatal(err)
			}
			e.NextSend()
			return uint32(id)
		}},
		"key": {32, func(t *testing.T, d *Device) uint32 {
			dom, err := d.NewDomain()
			if err != nil {
				t.Fatal(err)
			}
			mr, err := dom.Register(make([]byte, 8), rdmatransport.AccessRemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(mr.RKey())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var drawn [2][]uint32
			for i := range drawn {
				d, err := Open(Config{Addr: netip.MustParseAddr("192.0.2.1"), Network: udp.NewNetwork(uint64(i))})
				if err != nil {
					t.Fatal(err)
				}
				for range n {
					drawn[i] = append(drawn[i], c.draw(t, d))
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				wantRandom(t, drawn[i], c.bits)
			}
			equal := 0
			for i, v := range drawn[0] {
				if v == drawn[1][i] {
					equal++
				}
			}
			if equal > 2 {
				t.Errorf("two devices have %d of %d numbers in common", equal, n)
			}
		})
	}
}

// wantRandom requires each statistic to be within six standard deviations, which a good generator exceeds about once
// in 10^8 times.
func wantRandom(t *testing.T, drawn []uint32, bits uint) {
	t.Helper()
	n := float64(len(drawn))
	for bit := range bits {
		var set, changed float64
		for i, v := range drawn {
			set += float64(v >> bit & 1)
			if i > 0 {
				changed += float64((v ^ drawn[i-1]) >> bit & 1)
			}
		}
		if sigma := math.Sqrt(n) / 2; math.Abs(set-n/2) > 6*sigma || math.Abs(changed-n/2) > 6*sigma+1 {
			t.Errorf("bit %d: set in %v, changed in %v of %v", bit, set, changed, n)
		}
	}
	for shift := uint(0); shift < bits; shift += 8 {
		var count [256]float64
		for _, v := range drawn {
			count[v>>shift&0xff]++
		}
		chi := 0.0
		for _, c := range count {
			chi += (c - n/256) * (c - n/256) / (n / 256)
		}
		if sigma := math.Sqrt(2 * 255); math.Abs(chi-255) > 6*sigma {
			t.Errorf("bits from %d: chi square %v, want about 255", shift, chi)
		}
	}
	seen, again := map[uint32]bool{}, 0.0
	for _, v := range drawn {
		if seen[v] {
			again++
		}
		seen[v] = true
	}
	if want := n * n / 2 / math.Pow(2, float64(bits)); again > want+6*math.Sqrt(want)+2 {
		t.Errorf("%v of %v numbers come again, want about %v", again, n, want)
	}
}
