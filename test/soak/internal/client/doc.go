// Package client is a host's load: it writes and reads namespaces, verifies all it reads by
// tables of package record, and reports.
//
// It runs in a process of its own, so that it can be killed as any host can. [Run] reads a
// [Spec], and writes a [Report] every [ReportEvery], as lines of JSON; it ends with its input.
//
// A worker has a range of blocks that it alone writes, and reads those of all. Where the end
// of a write is not known, since a connection to attach or the process before was lost, it
// does not write until the target can not execute that any more: Spec.Fence.
package client
