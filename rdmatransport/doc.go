// Package rdmatransport defines the RDMA interface that providers implement and NVMe over Fabrics uses: device,
// domain, memory region and window, queue pair, completion queue, listener, connection request, work request and
// completion. The terms have the meaning of the InfiniBand Architecture Specification (volume 1, chapters 9 to 12)
// and of libibverbs.
//
// # Providers
//
// Package softroce implements RoCEv2 over ordinary UDP sockets; package verbs drives hardware through libibverbs.
// Package rdmatest contains the test suite that each provider passes. Only programs and tests depend on a particular
// provider.
//
// A connection ends with its process, unless the device is a [MovableDevice], which another process can continue.
//
// # Threads
//
// A [CompletionQueue] and every [QueuePair] that completes on it belong to one shard: one goroutine at a time may
// call their methods, and they do no locking. Only [CompletionQueue.Wake] may be called from any goroutine. The
// methods of [Device], [Domain], [Listener] and [MemoryRegion] may be called from any goroutine, except
// [Domain.NewQueuePair], [Domain.NewSharedReceiveQueue] and [ConnRequest.Accept], which the owner of the completion
// queue calls.
//
// [CompletionQueue.Poll] drives the provider: it may do all its work there, so a queue that is not polled makes no
// progress. The first completion queue of a device also drives connection management: it must be polled for Listen
// and Connect to make progress.
//
// # Buffers
//
// Work requests and their scatter lists are copied when they are posted, so the slices may be reused at once. The
// memory in a scatter list belongs to the provider from the post until the completion of that work request or, for an
// unsignaled one, of a later signaled one on the same queue. Meanwhile it must not be written (send, write) or
// accessed at all (receive, read), since a retransmission reads it again. Memory that a peer can access with a key
// belongs to the peer until the key is invalidated.
//
// # Ordering
//
// Work requests of one queue pair start and complete in the order of posting. Messages arrive in order: the receive
// of a SEND completes after the data of every earlier WRITE is in place. A READ may still be in progress when a later
// SEND or WRITE is sent; FlagFence delays a request until all earlier READs and atomics have completed. A receive
// completion means that its own buffer is filled, a send completion that the peer's transport has acknowledged.
//
// PostSend may delay requests until [CompletionQueue.Flush], so that a datagram or doorbell is shared by all requests
// of one turn of the loop.
//
// # Errors
//
// A post fails only for invalid requests or for a full queue. All later errors are reported by the status of a
// completion. The first failed completion carries the reason. The queue pair is then in the error state, and every
// other posted request, receives of its own included, completes exactly once with StatusFlushed (for shared ones see
// [SharedReceiveQueue]). A consumer therefore learns from its completion queue alone that its connection ended,
// whatever the reason. [QueuePair.Err] describes the reason.
package rdmatransport
