// Package operation executes reads, writes and the like on namespaces. An [IOQueue] splits the [Op]s on one I/O queue
// into commands, which it sends with package association; an operation ends with the last of its commands. The data
// path neither allocates nor locks.
package operation
