// Package gateways tries a group of gateways as processes, over an etcd that is one too: three
// targets on loopback addresses share three namespaces in files, which only a lease fences. A host
// of package multipath keeps reads and writes going over all of them, each worker in blocks of its own,
// whose contents it knows. It needs Debian's package etcd-server, and neither root nor systemd.
//
//	go test ./test/gateways -rounds 12 -v
//
// does so many rounds. What happens in each is chosen by a seed. In every other one nobody should
// notice it: a gateway is drained and resumed, or ended and started, an ANA group is moved, etcd is stopped
// for less than the lease, or killed and started. In the others one gateway or two are killed, or one
// while it is drained, one is stopped for longer than its lease, or while it gives or takes a group, etcd is stopped
// for longer, or all of them are killed and started.
//
// # What is judged
//
//   - A read returns the last write of its block that was acknowledged. Where it does not, and still
//     does not at the end of all rounds, the write is lost; else the read was stale.
//   - No request fails: some path is left, or comes back.
//   - 30 s after the end of what happened each namespace is served, and its workers get on.
//
// Times are printed, and not judged: they are the machine's, too.
package gateways
