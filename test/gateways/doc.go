// Package gateways tries a group of gateways as processes, over an etcd that is one too: three
// targets on loopback addresses share three namespaces in files, which only a lease fences. A host
// of package multipath keeps reads and writes going over all of them, each worker in blocks of its own,
// whose contents it knows. It needs Debian's package etcd-server, and neither root nor systemd.
//
//	go test ./test/gateways -rounds 12 -v
//
// does so many rounds. What happens in each is chosen by a seed: a gateway is drained and resumed,
// an ANA group is moved, a gateway is killed and started, or stopped for longer than its lease, etcd
// is stopped for less or more than that, or all of them are killed and started.
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
