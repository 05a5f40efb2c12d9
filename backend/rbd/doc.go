// Package rbd stores a namespace in an image of a Ceph cluster (RBD), through librbd.
//
// # Builds
//
// It needs cgo and the build tag rbd, and no headers:
//
//	CGO_ENABLED=1 go build -tags rbd ./...
//
// Any other build has the same functions, and [Open] says in its error that the storage is
// missing. The libraries (librados2 and librbd1, 16.2 or later) are loaded by Open, so that one
// binary runs on machines with and without them.
//
// # The image
//
// A writable image must have the feature exclusive-lock, as images have unless they are made
// otherwise, and belongs to one store: Open acquires its lock, which other clients of Ceph cannot
// request from it. A lock whose owner is gone is free when the cluster has missed the owner for
// 30 s, which Open waits for; the cluster then refuses whatever that client still sends. Snapshots, and images
// that are opened for reading only, take no lock.
//
// # I/O
//
// Each queue hands its requests by memory to a thread of its client, which begins them in librbd, and
// may wait there as the queue's owner must not. All images of a client have that thread, so that the client has
// no limit of outstanding requests, at which an image that has no answers would have others wait. A thread of librbd's reports the end of
// each by a ring in memory of the queue's, and by an eventfd where the owner sleeps. No request calls C
// from Go: what the Go scheduler's monitor does about a call that lasts cost 26 us of processor time for a
// read of 4 KiB, of 170 in all. librbd
// copies data once, those of reads from what it has received. It could send writes from the
// buffers of requests, but in version 16.2 some of those that it refuses never end then. Nothing is allocated in Go; librbd allocates for each request.
//
// # Durability
//
// librbd's caches are off: a write that has completed is durable in the cluster, and Flush has
// little to do. The image's metadata may turn a cache on all the same, which is why
// [backend.Info] says that there is one and Flush is passed on.
//
// # Compare and write
//
// Within one stripe unit (the object, 4 MiB, unless the image is made otherwise) the cluster
// compares and writes in one step, with a librbd before version 17 within 512 bytes. Beyond that the queue reads, compares and writes, and no
// other write of the store touches the range meanwhile; the lock keeps others out.
//
// # A cluster that does not answer
//
// Requests wait for as long as Ceph's own settings say, which is for ever: what becomes of a
// write that is given up is not known. Closing waits [CloseTime] for them and then fails with a
// [HungError], while what is left ends when the cluster answers.
//
// # Fences
//
// The cluster refuses what comes from a client whose addresses are on its blocklist, see
// [Client.Fence]. Each OSD does so once it has the map that says so, and OSDs may get it seconds after
// the monitors have agreed. So whoever serves images after a fence first visits all placement groups of
// their pools ([Client.AwaitFence], [Store.Pools]): each OSD that serves one then has that map. An OSD that
// hangs is waited for until the cluster has marked it down. All requests of such a client, or of one that has lost the lock, fail at once with
// [backend.ErrFenced], also those whose success is on its way. The store is latched
// ([Store.Failed]) until [Store.Clear] opens the image again as another client. One that is on a
// [Client] of the caller's cannot be cleared then: it is opened again on another Client.
//
// # Not supported
//
// Copies within the cluster (Info.Copy), images without exclusive-lock, keys of encrypted images.
package rbd
