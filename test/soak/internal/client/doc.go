// Package client is the load of a host: it writes and reads namespaces, verifies all that it reads against the tables
// of package record, and reports.
//
// It runs in a process of its own, so that it can be killed like any host. [Run] reads a [Spec] and writes a [Report]
// every [ReportEvery], both as lines of JSON. It ends with its input.
//
// A worker is the only writer of a range of blocks, and reads the ranges of all workers. If the connection to attach is
// lost, or the previous process was killed, the outcome of some writes is unknown. Then it does not write until the
// target can no longer execute those writes: Spec.Fence.
package client
