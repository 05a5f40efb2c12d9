package benchcommand

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// FuzzLists checks that sizes, rates and percentiles on the command line are rejected, or within bounds.
func FuzzLists(f *testing.F) {
	for _, s := range []string{"4k", "4k,8k,16k", "4k-64k,8k-8k", "4k/60:64k/40", "4k/50:8k:16k", "1m,,2m", "99:50:99.9", "NaN", "1e1000", "16777216/100:1/0", "4k/:8k/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range []load{{bs: s}, {bsrange: s}, {bssplit: s}} {
			j := bench.Job{Pattern: bench.RandRW}
			if l.blockSizes(&j) != nil {
				continue
			}
			if j.BlockSize <= 0 && l.bssplit == "" || j.MaxBlock > maxRequest {
				t.Fatalf("%q: blocks of %d to %d", s, j.BlockSize, j.MaxBlock)
			}
			for d := range bench.Direction(bench.Directions) {
				z, sum := j.Sized(d), 0
				for _, share := range z.Split {
					sum += share.Percent
					if share.Percent < 0 || share.Size <= 0 || share.Size > maxRequest {
						t.Fatalf("%q: a share of %+v", s, share)
					}
				}
				if z.Split != nil && sum != 100 || z.Split == nil && (z.Least <= 0 || z.Most < z.Least) {
					t.Fatalf("%q: %+v, %d percent", s, z, sum)
				}
			}
		}
		for _, l := range []load{{rate: s}, {rateIOPS: s}} {
			j := bench.Job{Pattern: bench.RandRW, BlockSize: maxRequest, MaxBlock: maxRequest}
			if l.rates(&j) != nil {
				continue
			}
			for _, n := range j.Rate {
				if n < 0 {
					t.Fatalf("%q: a rate of %d", s, n)
				}
			}
		}
		l := load{percentileList: s}
		all, err := l.percentiles()
		for i, p := range all {
			if err == nil && (!(p >= 0 && p <= 100) || i > 0 && p <= all[i-1] || i >= maxPercentiles) {
				t.Fatalf("%q: %v", s, all)
			}
		}
		var m microseconds
		if m.Set(s) == nil && m < 0 {
			t.Fatalf("%q: %v", s, m)
		}
	})
}
