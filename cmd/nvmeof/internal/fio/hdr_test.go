package fio

import (
	"bytes"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// TestHDR compares with the output of hdrhistogram-go 1.4.0 for the same latencies.
func TestHDR(t *testing.T) {
	const head = " Value\tPercentile\tTotalCount\t1/(1-Percentile)\n\n"
	for _, c := range []struct {
		name      string
		latencies []time.Duration
		want      string
	}{
		{"none", nil, head + `       0.000     1.000000            0          inf
#[Mean    =        0.000, StdDeviation   =        0.000]
#[Max     =        0.000, Total count    =            0]
#[Buckets =           32, SubBuckets     =         2048]
`},
		{"some", []time.Duration{137, 1500, 1501, 62_345, 62_400, 71_000, 88_123, 90_001, 1_234_567, 7_000_000_000}, head + `       0.137     0.000000            1         1.00
       0.137     0.100000            1         1.11
       1.502     0.200000            3         1.25
       1.502     0.300000            3         1.43
      62.431     0.400000            5         1.67
      62.431     0.500000            5         2.00
      71.103     0.550000            6         2.22
      71.103     0.600000            6         2.50
      88.255     0.650000            7         2.86
      88.255     0.700000            7         3.33
      90.047     0.750000            8         4.00
      90.047     0.775000            8         4.44
      90.047     0.800000            8         5.00
    1235.967     0.825000            9         5.71
    1235.967     0.850000            9         6.67
    1235.967     0.875000            9         8.00
    1235.967     0.887500            9         8.89
    1235.967     0.900000            9        10.00
 7000293.375     0.912500           10        11.43
 7000293.375     1.000000           10          inf
#[Mean    =   699980.897, StdDeviation   =  2099405.139]
#[Max     =  7000293.375, Total count    =           10]
#[Buckets =           32, SubBuckets     =         2048]
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h bench.Histogram
			for _, l := range c.latencies {
				h.Record(l)
			}
			var b bytes.Buffer
			if err := HDR(&b, &h); err != nil {
				t.Fatal(err)
			}
			if b.String() != c.want {
				t.Errorf("got\n%s\nwant\n%s", &b, c.want)
			}
		})
	}
}
