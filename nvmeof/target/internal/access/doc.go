// Package access says who may see what of a subsystem: the hosts that may connect, and
// each one's right to every namespace.
//
// A [List] owns its hosts, under a mutex of its own. [Rights] and what a list hands out
// do not change, so that shards read them through a pointer.
package access
