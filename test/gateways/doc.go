// Package gateways tests a group of gateways as processes, with a store that runs as processes too. The store is an
// etcd: three targets on loopback addresses share four namespaces in files, which only a lease fences. Or it is a Ceph
// cluster of the test's own (package ceph), which has the group's state and the images, and refuses fenced clients. A
// host of package multipath reads and writes over all gateways all the time. Each of its workers has blocks of its own,
// whose contents it knows. The tests need Debian's package etcd-server, or those of Ceph, but neither root nor systemd.
//
//	go test ./test/gateways -rounds 12 -v
//	CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -rounds 28 -v
//
// runs that many rounds. A seed chooses the fault of each.
//
// Every other round is planned, and the host should not notice it. A gateway is drained and resumed, or ended and
// started; an ANA group is moved; etcd is stopped for less than the lease, or killed and started. With Ceph the monitor
// is stopped or killed, or an OSD is stopped for a moment.
//
// The other rounds are sudden. One or two gateways are killed, or one while it is drained. A gateway is stopped for
// longer than its lease, or while it gives or takes an ANA group. etcd is stopped for longer than the lease, or
// everything is killed and started. With Ceph an OSD is stopped or killed, also while an ANA group moves or its owner
// dies; a gateway is killed while the monitor hangs; an administrator blocklists a gateway.
//
// # What is checked
//
//   - A read returns the last acknowledged write of its block. If it does not, and still does not at the end of all
//     rounds, the write is lost; otherwise the read was stale.
//   - No request fails: some path remains, or comes back.
//   - 30 s after the end of a fault each namespace is served, and its workers make progress.
//   - While Ceph's monitor is down I/O goes on, and no gateway takes over from one that was not fenced.
//   - After everything was killed the configuration is unchanged, and no epoch has decreased.
//
// Times are printed, but not checked, since they also depend on the machine. TestTable (-table) prints a table of them
// beside their limits.
package gateways
