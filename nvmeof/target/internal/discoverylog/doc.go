// Package discoverylog implements the discovery log page (NVMe base 2.0, 5.16.1.23): the records for a host, and
// the page made from them.
//
// Records are comparable, so that a host's log can be compared before and after a change. The caller decides which
// host gets which records.
package discoverylog
