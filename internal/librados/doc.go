// Package librados is a client of a Ceph cluster using librados. It provides connections, keys of objects that are
// compared and written in one step, messages between the watchers of an object, and the cluster's blocklist.
//
// It is only in builds with cgo and the tag rbd, needs no headers, and loads the library (librados2, 16.2 or later)
// when a client connects. Calls to the cluster may take arbitrarily long, unless the client's settings limit that.
package librados
