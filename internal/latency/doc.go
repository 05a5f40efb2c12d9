// Package latency counts durations in buckets of fixed bounds.
//
// The bounds are those of two kinds of Prometheus histograms at once: the classic ones, 1, 2 and 5
// times a power of ten from 10 µs to 10 s, and those of a native histogram of schema 2, the powers of
// the fourth root of two, from a microsecond to a minute. So a duration is counted once, and both
// are sums of counts.
//
// Nothing here locks: a [Histogram] belongs to who counts in it, a [Shared] to nobody.
package latency
