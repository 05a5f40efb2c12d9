// Package bench loads stores, local or remote, and measures them, as fio does: each
// job is a thread that keeps a number of requests in flight and times each. It works
// on [backend.Store], which a namespace of a controller is too, so that what a fabric
// adds is the difference of two results.
package bench
