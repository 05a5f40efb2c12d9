// Package association implements the queues of one controller. An association between a host and a controller is its
// admin queue and its I/O queues, which are created and end together (NVMe base 2.0, 1.5). A [Queue] is one of them. A
// [Task] is one command on a queue, or the two commands of a fused operation. An [Aborter] sends Abort for commands
// that are to end early. A [Domain] is the registered memory of all queues.
//
// A queue is owned by the loop of its shard. Methods of queues, tasks and pools that must be called in the loop say so;
// all others may be called from any goroutine.
package association
