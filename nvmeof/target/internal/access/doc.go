// Package access has the access rights of a subsystem: the hosts that may connect, and
// the right of each to every namespace.
//
// A [List] owns its hosts, under a mutex of its own. [Rights] and the entries of a list
// are immutable, so that shards read them through a pointer.
package access
