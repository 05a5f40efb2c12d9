// Package latency counts durations in buckets with fixed bounds.
//
// The bounds are those of two kinds of Prometheus histograms together. Those of the classic histogram are 1, 2 and 5
// times a power of ten from 10 µs to 10 s. Those of the native histogram of schema 2 are the powers of the fourth root
// of two from a microsecond to a minute. So a duration is counted once, and both histograms are sums of these counts.
//
// Nothing here locks: a [Histogram] must be used by one goroutine at a time, a [Shared] may be used by any number.
package latency
