package fio

import (
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nvmeof-go/nvmeof/nvmeof/bench"
)

// HDR prints percentiles as HdrHistogram's tools do (.hgrm), in microseconds.
func HDR(w io.Writer, h *bench.Histogram) error {
	const digits, ticks = 3, 5
	out := hdrhistogram.New(1, int64(time.Hour), digits)
	var err error
	h.Each(func(start, width, count uint64) {
		v := min(max(start+width/2, h.Min), h.Max)
		if e := out.RecordValues(int64(v), int64(count)); e != nil && err == nil {
			err = e
		}
	})
	if err != nil {
		return err
	}
	_, err = out.PercentilesPrint(w, ticks, 1e3)
	return err
}
