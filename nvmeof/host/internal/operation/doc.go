// Package operation carries out reads, writes and the like on namespaces, each of which
// takes one command or several. A [IOQueue] cuts the [Op]s of one I/O queue into commands,
// which it hands to package association; an operation ends with the last of them. There
// is no allocation in that, and no lock.
package operation
