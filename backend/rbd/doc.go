// Package rbd implements a store in an image of a Ceph cluster (RBD), using librbd.
//
// # Builds
//
// The package needs cgo and the build tag rbd, but no headers:
//
//	CGO_ENABLED=1 go build -tags rbd ./...
//
// Any other build has the same functions, and [Open] returns an error that says that the build has no RBD storage. Open
// loads the libraries (librados2 and librbd1, 16.2 or later) at run time, so that one binary runs on machines with and
// without them.
//
// # The image
//
// A writable image must have the feature exclusive-lock, which images have by default, and belongs to one store: Open
// acquires its lock, which other clients of Ceph cannot request from it. If the owner of a lock is gone, the cluster
// frees the lock after 30 s without contact, for which Open waits; the cluster then refuses whatever that client still
// sends. Snapshots, and images that are opened read-only, take no lock.
//
// # I/O
//
// Each queue passes its requests in memory to a thread of its client, the starter. The starter begins them in librbd,
// where it may block, as the queue's owner must not. All images of a client share the starter. The client therefore has
// no limit of outstanding requests: at the limit, an image without answers would block the others. A thread of librbd
// reports the end of each request in a ring in the queue's memory, and by an eventfd if the owner sleeps.
//
// No request calls C from Go. The Go scheduler's monitor reacts to a long call, which took 26 us of processor time for
// a read of 4 KiB, of 170 us in all. librbd copies data once, for reads from its receive buffer. It could send writes
// directly from the buffers of requests, but in version 16.2 some writes that it refuses then never end. Go allocates
// nothing; librbd allocates for each request.
//
// # Durability
//
// librbd's caches are off: a completed write is durable in the cluster, and Flush has little to do. The image's
// metadata may still enable a cache. Therefore [backend.Info] reports one and Flush is passed on.
//
// # Compare and write
//
// The cluster compares and writes in one step within one stripe unit (by default the object, 4 MiB), or within 512
// bytes with a librbd before version 17. For longer ranges the queue reads, compares and writes. No other write of the
// store accesses the range meanwhile; the lock keeps out other clients.
//
// # A cluster that does not answer
//
// Requests wait for as long as Ceph's own settings say, which by default is forever: the outcome of a write that is
// given up would be unknown. Close waits [CloseTime] for them and then fails with a [HungError]; what remains ends when
// the cluster answers.
//
// # Fences
//
// The cluster refuses requests from a client whose addresses are on its blocklist, see [Client.Fence]. Each OSD does so
// once it has the map with the fence, which may be seconds after the monitors have agreed. So a program that serves
// images after a fence first visits all placement groups of their pools ([Client.AwaitFence], [Store.Pools]): then each
// OSD that serves one of them has the map. An OSD that hangs delays this until the cluster has marked it down.
//
// All requests of a fenced client, or of one that has lost the lock, fail at once with [backend.ErrFenced], even if
// their success is about to be reported. The store is latched ([Store.Failed]) until [Store.Clear] opens the image
// again as another client. A store with [Config.Client] cannot be cleared then: open it again with another Client.
//
// # Not supported
//
// Copies within the cluster (Info.Copy), images without exclusive-lock, and keys of encrypted images.
package rbd
