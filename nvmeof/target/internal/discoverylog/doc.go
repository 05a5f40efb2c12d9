// Package discoverylog is the discovery log page (NVMe base 2.0, 5.16.1.23): records of
// what one host is told, and the page made of them.
//
// Records are values that can be compared, so that whoever makes them finds out whose
// log a change has changed; who sees which is decided outside. They belong to whoever
// holds them.
package discoverylog
