// Package verbs is the RDMA provider for machines that have RDMA: an RNIC
// (InfiniBand, RoCE, iWARP) or the kernel's rdma_rxe, through libibverbs and
// librdmacm. A [rdmatransport.Device] is the port that has an IP address.
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
// The files shim*.c are all of the C. It keeps no Go pointer and calls nothing of Go. One call
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
// a send is out that is not relaxed: a sleeping owner gets the completion of the response that it
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
// A device is lost when the system removes it ([ErrRemoved]), when it reports a fatal
// error ([ErrBroken]) or when its address moves to another interface ([ErrMoved]: a
// bond that fails over; RDMA_CM_EVENT_ADDR_CHANGE). All of it ends then, listeners
// with an error that is [rdmatransport.ErrDeviceLost], and Close gives all of it
// back: also what librdmacm keeps open for as long as a process lives, since drivers
// that cannot take a device from its users (rdma_rxe) hold its removal until the last
// file is closed, and do not even report it. Hence the first completion queue looks once
// a second whether the device is still there. Who wants it back opens it again.
//
// The end of a connection is not followed by the wait for TIMEWAIT_EXIT: the kernel
// keeps what it needs for that time without the identifier. Neither the port of a
// listener nor the next connection waits for it (TestListenAgain, TestCycles). A late packet for a queue
// pair number that is used again would have to come from the new peer's address and
// hit its sequence numbers, which start at random; rdma_rxe hands out numbers in turn
// besides. The event is taken where it comes before the identifier is gone: as the
// end of what was to be said.
//
// # Addresses
//
// A device listens on every address that belongs to it, and on a wildcard, where what
// comes through another device is refused. A wildcard of several devices is left to
// the program, which opens one device for each: a completion queue and the memory
// registered for it belong to one device, so nothing would be shared.
//
// # Memory of other devices
//
// [DMABufDomain] registers dma-bufs. It is beside the contract: nothing of this
// module uses it yet, and no device that can has been tried.
//
// # iWARP
//
// It was read for, and never run. What it has otherwise, and where that is:
//
//   - The active side sends first (RFC 5044, 7.1): until its first message has come, the
//     passive side must not send. NVMe over RDMA keeps to that, whose first message is
//     the host's Connect command; nothing here enforces it.
//   - The connection exchange has two messages, and the device moves the queue pair by
//     itself: on the active side nothing is left to do when the reply has come.
//   - Private data have their real length, not that of the message's field.
//   - A refusal has no reason but an errno, and perhaps data.
//   - There is no immediate data: Attrs says so, and what asks for it is refused.
//   - The answers to RDMA READs are writes by the peer (RFC 5040, 5.2): what they are to
//     fill is registered for that, and the queue pair allows it even where the peer is to
//     have no access. Any peer that learns such a key can write there.
//   - A READ may fill fewer elements than a scatter list has, often one: Attrs.MaxReadSGE.
//   - A message without a receive ends the connection, with no RNR retry; the end of a
//     queue pair ends the TCP connection, with what was not acknowledged.
//
// # Limits
//
// Reliable connections only, no multicast, no path migration. A peer sees virtual addresses of this process. The
// keys of memory windows change in 8 bits only.
//
// A queue pair that is closed while a message arrives may take a shared receive with
// it: rdma_rxe does not complete what it had begun to fill, and other devices may not
// have done so yet. Completions that are there are kept.
//
// What rdma_rxe does otherwise than an RNIC (Linux 6.12): it holds a window to its
// region's bounds only, it binds windows a second time when it sends again, and it
// often reports a local error as a flush, or as another one. Where packets are lost or
// reordered it puts queue pairs into the error state with no error to report
// (rxe_comp.c:827 warns of that, once) or lets them fall silent, which two Linux kernels
// do to each other too: over rdma_rxe a connection with loss ends now and then, and who
// wants to go on connects again.
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
package verbs
