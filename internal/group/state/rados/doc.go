// Package rados keeps the state of a group of gateways in a Ceph cluster: in the keys of one object, which must be in a
// replicated pool.
//
// It implements [state.Store]. One key of the object contains the counter of revisions; for each key of the state the
// object has its value and its revision. A transaction is one operation of the cluster: it compares the counter and the
// revisions, and then writes all or nothing. If only the counter has changed it is tried again. A read of more than one
// page reads the counter with each page. If it has changed all pages are read again in one operation, for which it is
// known then with which keys they begin.
//
// A client that has changed something sends a message to the watchers of the object. Messages may be lost, so the
// counter is read from time to time, too.
//
// Like backend/rbd it needs cgo and the build tag rbd. In other builds [Open] returns an error that says so.
package rados
