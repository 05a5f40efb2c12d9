// Package gateways tries a group of gateways as processes, over an etcd that is one too: three
// targets on loopback addresses share four namespaces in files, which only a lease fences; or over
// a Ceph cluster of its own (package ceph), which has the state and the images, and refuses who is fenced.
// A host of package multipath keeps reads and writes going over all of them, each worker in blocks of its own,
// whose contents it knows. It needs Debian's package etcd-server, or those of Ceph, and neither root nor systemd.
//
//	go test ./test/gateways -rounds 12 -v
//	CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -rounds 28 -v
//
// does so many rounds. What happens in each is chosen by a seed. In every other one nobody should
// notice it: a gateway is drained and resumed, or ended and started, an ANA group is moved, etcd is stopped
// for less than the lease, or killed and started; of Ceph the monitor is stopped or killed, or an OSD stopped for
// a moment. In the others one gateway or two are killed, or one while it is drained, one is stopped for longer
// than its lease, or while it gives or takes a group, etcd is stopped for longer, or everything is killed and
// started; of Ceph an OSD is stopped or killed, also while a group moves or its owner dies, a gateway is killed while
// the monitor hangs, or an administrator blocklists one.
//
// # What is judged
//
//   - A read returns the last write of its block that was acknowledged. Where it does not, and still
//     does not at the end of all rounds, the write is lost; else the read was stale.
//   - No request fails: some path is left, or comes back.
//   - 30 s after the end of what happened each namespace is served, and its workers get on.
//   - While the monitor of Ceph is down I/O goes on, and nobody is succeeded who was not fenced.
//   - When everything was killed the configuration is the one before, and no epoch has gone back.
//
// Times are printed, and not judged: they are the machine's, too. TestTable (-table) makes a table of
// them, beside what they have to be.
package gateways
