// Package rdmatransport is the vocabulary of RDMA that providers implement and
// NVMe over Fabrics is written in: device, domain, memory region and window,
// queue pair, completion queue, listener, connection request, work request and
// completion. The words mean what they mean in the InfiniBand Architecture
// Specification (volume 1, chapters 9 to 12) and in libibverbs.
//
// # Providers
//
// Package softroce speaks RoCEv2 over an ordinary UDP socket; package verbs
// drives hardware through libibverbs. Package rdmatest holds the suite that
// each provider passes. Only programs and tests know which one is in use.
//
// A connection ends with the process that has it, unless the device is a
// [MovableDevice], which another process can continue.
//
// # Threads
//
// A [CompletionQueue] and every [QueuePair] that completes on it belong to one
// shard: one goroutine at a time calls their methods, and nothing in them
// locks. [CompletionQueue.Wake] alone may be called from anywhere. The methods
// of [Device], [Domain], [Listener] and [MemoryRegion] may be called from any
// goroutine, except [Domain.NewQueuePair] and [ConnRequest.Accept], which the
// owner of the queue pair's completion queue calls.
//
// [CompletionQueue.Poll] is the driver: a provider may do all its work inside
// it, so nothing moves on a queue that nobody polls. The first completion queue
// of a device also carries its connection management, so it must be polled for
// Listen and Connect to make progress.
//
// # Buffers
//
// Work requests and their scatter lists are copied when they are posted, so the
// slices may be reused at once. The memory a scatter list names belongs to the
// provider from the post until the completion of that work request, or, for an
// unsignaled one, of a later signaled one on the same queue: it must not be
// written (send, write) or touched (receive, read) in between, since a
// retransmission reads it again. Memory that a peer may reach with a key belongs
// to the peer until the key is dead.
//
// # Ordering
//
// Work requests of one queue pair start and complete in the order of posting.
// Messages arrive in order: a SEND's receive completes after the data of every
// WRITE posted before it is in place. A READ may still be in progress when a
// later SEND or WRITE is sent; FlagFence holds a request until all earlier
// reads and atomics have completed. A receive completion says that its own
// buffer is filled, a send completion that the peer's transport acknowledged.
//
// PostSend may hold requests back until [CompletionQueue.Flush], so that
// datagrams or doorbells are paid once for a whole turn of the loop.
//
// # Errors
//
// A post fails with an error only for requests the caller built wrongly or for
// a full queue; everything that happens later is a completion with a status.
// The first failed completion carries the reason; the queue pair is then in the
// error state and every other posted request completes with StatusFlushed, each
// exactly once, receives of its own included (what shared ones do:
// [SharedReceiveQueue]). A consumer therefore learns that its
// connection ended, for whatever reason, from its completion queue alone;
// [QueuePair.Err] says why in words.
package rdmatransport
