// Package bench loads a store, local or remote, and measures it, as fio does: one
// goroutine keeps a number of requests in flight and times each. It works on
// [backend.Store], which a namespace of a controller is too, so that what a fabric
// adds is the difference of two results.
package bench
