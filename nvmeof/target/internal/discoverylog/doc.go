// Package discoverylog is the discovery log page (NVMe base 2.0, 5.16.1.23): the records
// that one host gets, and the page made of them.
//
// Records are comparable, so that a change can be compared with what the log of each host
// was. Which host gets which records is decided by the caller.
package discoverylog
