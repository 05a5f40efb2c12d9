package metrics

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A family has the metrics of one name.
type family struct {
	desc       *prometheus.Desc
	kind       prometheus.ValueType
	name, help string
	labels     []string
}

func newFamily(kind prometheus.ValueType, name, help string, labels []string) *family {
	return &family{prometheus.NewDesc(name, help, labels, nil), kind, name, help, labels}
}

func counter(name, help string, labels ...string) *family {
	return newFamily(prometheus.CounterValue, name, help, labels)
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, name, help, labels)
}

// histogram returns a family of histograms.
func histogram(name, help string, labels ...string) *family { return gauge(name, help, labels...) }

// A sink receives the metrics of a scrape.
type sink chan<- prometheus.Metric

// put adds a counter or a gauge.
func (s sink) put(f *family, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

// count adds a counter unless it is zero: reasons that never occurred are not listed.
func (s sink) count(f *family, n uint64, labels ...string) {
	if n > 0 {
		s.put(f, float64(n), labels...)
	}
}

// flag adds a gauge that is 0 or 1.
func (s sink) flag(f *family, on bool, labels ...string) {
	v := 0.0
	if on {
		v = 1
	}
	s.put(f, v, labels...)
}

// latencies adds a histogram, unless it is empty.
func (s sink) latencies(f *family, l *target.Latencies, labels ...string) {
	if l.Count() > 0 {
		s <- &latencies{f.desc, prometheus.MakeLabelPairs(f.desc, labels), l}
	}
}

// latencies is a histogram with classic and native buckets. The client library has no constant metric for that.
type latencies struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	l      *target.Latencies
}

func (m *latencies) Desc() *prometheus.Desc { return m.desc }

func (m *latencies) Write(out *dto.Metric) error {
	h := &dto.Histogram{SampleCount: new(m.l.Count()), SampleSum: new(m.l.Sum().Seconds())}
	bounds := target.LatencyBounds()
	for i, n := range m.l.Cumulative() {
		h.Bucket = append(h.Bucket, &dto.Bucket{CumulativeCount: new(n), UpperBound: new(bounds[i].Seconds())})
	}
	m.native(h)
	out.Label, out.Histogram = m.labels, h
	return nil
}

// native adds the native buckets: spans of consecutive buckets, and for each count the difference from the one
// before.
func (m *latencies) native(h *dto.Histogram) {
	schema, first := target.LatencySchema()
	h.Schema = new(int32(schema))
	h.ZeroThreshold, h.ZeroCount = new(exp2(first, schema)), new(uint64(0))
	next, before := 0, int64(0) // exponent after the last span; count of the last bucket
	for e, n := range m.l.Native {
		if e == first {
			h.ZeroCount = new(n)
			continue
		}
		if last := len(h.PositiveSpan) - 1; last >= 0 && e == next {
			*h.PositiveSpan[last].Length++
		} else {
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(int32(e - next)), Length: new(uint32(1))})
		}
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		next, before = e+1, int64(n)
	}
	if len(h.PositiveSpan) == 0 { // an empty span marks the histogram as native
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
	}
}

func itoa[T ~int | ~uint8 | ~uint32](n T) string { return strconv.FormatUint(uint64(n), 10) }

// exp2 returns the upper bound of a native bucket: 2^(2^-schema) to the power of exponent.
func exp2(exponent, schema int) float64 {
	return math.Exp2(float64(exponent) / float64(int(1)<<schema))
}
