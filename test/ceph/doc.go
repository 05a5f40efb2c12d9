// Package ceph starts a real Ceph cluster on a loopback address for tests: a monitor, a manager and OSDs that store in
// files of a temporary folder. It needs Debian's packages ceph-mon, ceph-mgr, ceph-osd and ceph-common, but neither
// root nor systemd.
//
//	go test -tags rbd ./test/ceph -ceph -v
//
// runs the suite of package backendtest on images of such a cluster. It also tests package rbd with killed OSDs, a
// cluster that hangs and a second client of an image, and the state of a group in Ceph.
package ceph
