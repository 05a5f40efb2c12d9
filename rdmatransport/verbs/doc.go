// Package verbs is the RDMA provider for machines that have RDMA: an RNIC
// (InfiniBand, RoCE, iWARP) or the kernel's rdma_rxe, through libibverbs and
// librdmacm. A [rdmatransport.Device] is the port that owns an IP address.
//
// # Builds
//
// It needs cgo and the build tag verbs, with the headers of libibverbs-dev and
// librdmacm-dev:
//
//	CGO_ENABLED=1 go build -tags verbs ./...
//
// Any other build has the same functions, and [Open] says in its error that the
// transport is missing. The libraries themselves are loaded by [Open], so that one
// binary runs on machines with and without them.
//
// # The C side
//
// shim.c is all of the C. It keeps no Go pointer and calls nothing of Go. One call
// posts a chain of work requests from flat arrays, one takes a batch of
// completions; the rest is the control plane. Errors come back as negative errno.
//
// # Where things run
//
// A completion queue is polled by its shard and has a completion channel for
// blocking: Due arms it, Wait blocks in an epoll set with the channel, an eventfd
// for Wake and what Watch added. The first completion queue of a device has the
// RDMA CM's event channel and the device's asynchronous events in its set too.
// There are no goroutines.
//
// A completion queue is two of the device, one for sends. That one is armed only while
// a send is out that is not relaxed: a sleeping owner hears of the response that it
// has sent when the next command comes, or after 10 ms.
//
// # Ends
//
// A queue pair ends in software first: from then on nothing is posted to the
// device any more, and what is posted completes as flushed after everything that
// the device still has. That keeps the contract also with devices that flush only
// what was posted before the end (rdma_rxe's receive queue), and with those that
// are gone.
//
// # Memory of other devices
//
// [DMABufDomain] registers dma-bufs. It is beside the contract: nothing of this
// module uses it yet, and no device that can has been tried.
//
// # Limits
//
// Reliable connections only, no shared receive queues (the contract has none), no
// multicast, no path migration. A peer sees virtual addresses of this process. The
// keys of memory windows change in 8 bits only. On iWARP memory that RDMA READs
// are to fill can be written by any peer that learns its key, as that protocol
// demands.
//
// What rdma_rxe does otherwise than an RNIC (Linux 6.12): it holds a window to its
// region's bounds only, it binds windows a second time when it sends again, and it
// often tells a local error as a flush, or as another one.
//
// # Keys
//
// A device with memory windows of type 2B says so in its attributes, and whoever
// lends memory to a peer can give it a key for one operation that is dead
// afterwards. Without windows there are the keys of registrations, which live as
// long as those do: registering for each operation is a system call and a change of
// the device's page tables, many times what the operation costs. A host then gives
// controllers one key for what they may read and one for what they may write, each
// for all its buffers for that controller, and a controller may use them at any time
// until the host disconnects. rdma_rxe counts as without, unless
// [Config].LooseWindows: a window there costs the connection whenever a packet is
// lost, and guards nothing that its region's key does not, but in time.
//
// librdmacm keeps a device open for as long as the process lives, so that rdma link
// delete of an rxe device returns only when this process has ended. Its queue pairs
// and listeners have ended within a second or so.
package verbs
