// Package rados keeps the state of a group of gateways in a Ceph cluster: in the keys of one
// object, which must be in a replicated pool.
//
// It implements [state.Store]. The object has the counter of revisions under one key, and for
// each key of the state its value and its revision. A transaction is one operation of the
// cluster, which compares the counter and the revisions and then writes, or writes nothing; it
// is tried again when the counter alone has changed. Readers of more than a page read the
// counter with each, and begin again when it has changed.
//
// Who has changed something sends a message to those who watch the object. Messages may be
// lost, so that the counter is read now and then, too.
//
// Like backend/rbd it needs cgo and the tag rbd; other builds say so in the error of [Open].
package rados
