// Package access implements the access rights of a subsystem: the hosts that may connect, and the right of each to
// every namespace.
//
// A [List] owns its hosts, under its own mutex. [Rights] and the entries of a list are immutable, so that shards
// can read them through a pointer.
package access
