// Package ceph starts a real Ceph cluster on a loopback address, for tests of what uses one: a
// monitor, a manager and OSDs that store in files of a temporary folder. It needs Debian's
// packages ceph-mon, ceph-mgr, ceph-osd and ceph-common, and neither root nor systemd.
//
//	go test -tags rbd ./test/ceph -ceph -v
//
// runs the suite of package backendtest on images of such a cluster, and package rbd against
// OSDs that are killed, a cluster that hangs, and a second client of an image; then what keeps a
// group's state in Ceph.
package ceph
