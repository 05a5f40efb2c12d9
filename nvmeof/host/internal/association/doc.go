// Package association has the queues of one controller, which live and end together:
// an association between a host and a controller is its admin queue and its I/O queues
// (NVMe base 2.0, 1.5). A [Queue] is one of them when it is connected, a
// [Task] one command on it, or the two of a fused operation, and an [Aborter] what
// sends Abort for those that are to end early. A [Domain] is the memory of all.
//
// A queue belongs to the loop of its shard. Those methods of it, of tasks and of pools
// that are called in the loop say so; all others may be called from any goroutine.
package association
