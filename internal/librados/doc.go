// Package librados is a client of a Ceph cluster through librados: connections, keys of
// objects that are compared and written in one step, messages between those who watch an
// object, and the cluster's blocklist.
//
// It is in builds with cgo and the tag rbd alone, has no headers as its requirement, and loads
// the library (librados2, 16.2 or later) when a client connects. Calls that ask the cluster
// take as long as the cluster does, unless the client's settings limit that.
package librados
