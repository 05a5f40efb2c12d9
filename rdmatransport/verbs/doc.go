// Package verbs is the RDMA provider for RDMA devices: RNICs (InfiniBand, RoCE, iWARP) and the kernel's rdma_rxe. It
// uses libibverbs and librdmacm. A [rdmatransport.Device] is the port that has an IP address.
//
// # Builds
//
// The package needs cgo and the build tag verbs, with the headers of libibverbs-dev and librdmacm-dev:
//
//	CGO_ENABLED=1 go build -tags verbs ./...
//
// Any other build has the same functions, but [Open] returns an error that says that the transport is missing. The
// libraries are loaded by [Open], so that one binary runs on machines with and without them.
//
// # The C side
//
// All C code is in the files shim*.c. It retains no Go pointer and never calls Go. One call posts a chain of work
// requests from flat arrays, and one takes a batch of completions; the rest is the control plane. Errors are returned
// as negative errno.
//
// # Where things run
//
// A completion queue is polled by its shard and has a completion channel for blocking. Due arms it; Wait blocks in an
// epoll set with the channel, an eventfd for Wake and the descriptors given to Watch. The set of a device's first
// completion queue also contains the RDMA CM's event channel and the device's asynchronous events. There are no
// goroutines.
//
// A completion queue consists of two of the device's, one of them for sends. That one is armed only while a send is
// outstanding that is not relaxed. So a sleeping owner gets the completion of the response that it has sent together
// with the next command, or after 10 ms.
//
// # Ends
//
// A queue pair ends in software first. From then on nothing is posted to the device, and posted requests complete as
// flushed after the device's own completions. That fulfils the contract with devices that flush only what was posted
// before the end (rdma_rxe's receive queue), and with devices that were removed.
//
// A device is lost when the system removes it ([ErrRemoved]), when it reports a fatal error ([ErrBroken]) or when its
// address moves to another interface ([ErrMoved]: a bond that fails over; RDMA_CM_EVENT_ADDR_CHANGE). Everything on
// it then ends, and listeners return an error that wraps [rdmatransport.ErrDeviceLost]. Close frees everything,
// including the files that librdmacm otherwise keeps open until the process exits. Drivers that cannot take a device
// from its users (rdma_rxe) delay the removal until the last file is closed, and do not report it. Therefore the
// first completion queue checks once a second whether the device still exists. To use the device again, open it
// again.
//
// At the end of a connection the package does not wait for TIMEWAIT_EXIT: the kernel keeps the state for that time
// without the identifier. Neither a listener's port nor the next connection has to wait (TestListenAgain,
// TestCycles). A late packet for a reused queue pair number would have to come from the new peer's address and match
// its sequence numbers, which start at random; rdma_rxe also assigns numbers sequentially. If the event arrives
// before the identifier is destroyed, it is handled as the last event of the connection.
//
// # Addresses
//
// A device listens on every address that belongs to it, and on a wildcard, where it rejects requests that arrive
// through another device. For a wildcard over several devices, the program opens each device: completion queues and
// registered memory belong to one device, so nothing would be shared.
//
// # Memory of other devices
//
// [DMABufDomain] registers dma-bufs. It is an extension of the contract. Nothing in this module uses it yet, and it
// has not been tested on a device that supports it.
//
// # iWARP
//
// iWARP support was written from the specifications and has never been run. The differences:
//
//   - The active side sends first (RFC 5044, 7.1): until its first message has arrived, the passive side must not send.
//     NVMe over RDMA satisfies that, since its first message is the host's Connect command. It is not enforced here.
//   - The connection exchange has two messages, and the device moves the queue pair by itself. On the active side nothing
//     is left to do after the reply.
//   - Private data has its actual length, not that of the message's field.
//   - A rejection has an errno instead of a reason, and perhaps data.
//   - There is no immediate data: Attrs reports that, and requests with immediate data are refused.
//   - Responses to RDMA READs are writes by the peer (RFC 5040, 5.2). Memory that they fill is registered for remote
//     writes, and the queue pair allows them even if the peer is to have no access. Any peer that learns such a key can
//     write there.
//   - A READ may fill fewer elements than a scatter list has, often one: Attrs.MaxReadSGE.
//   - A message without a receive ends the connection, without an RNR retry. The end of a queue pair ends the TCP
//     connection, and unacknowledged data is lost.
//
// # Limits
//
// Reliable connections only, no multicast, no path migration. Peers see virtual addresses of this process. The keys
// of memory windows change in 8 bits only.
//
// If a queue pair is closed while a message arrives, a shared receive may be lost: rdma_rxe does not complete a
// receive that it had begun to fill, and other devices may not have completed it yet. Existing completions are kept.
//
// rdma_rxe differs from an RNIC (Linux 6.12). It checks accesses through a window only against the bounds of its
// region, binds windows a second time when it retransmits, and often reports a local error as a flush or as another
// error. When packets are lost or reordered, it may put queue pairs into the error state without reporting an error
// (rxe_comp.c:827 warns of that, once), or they become silent. That also happens between two Linux kernels. Over
// rdma_rxe, connections with packet loss therefore end now and then, and have to be connected again.
//
// # Keys
//
// A device with memory windows of type 2B says so in its attributes. A consumer can then give a peer a key for one
// operation and invalidate it afterwards. Without windows there are only the keys of registrations, which are valid
// as long as the registration. Registering memory for each operation takes a system call and a change of the device's
// page tables, many times the cost of the operation. A host then gives controllers one key for what they may read and
// one for what they may write, each for all its buffers for that controller. A controller may use them until the host
// disconnects. rdma_rxe counts as without windows, unless [Config].LooseWindows is set: its windows end the
// connection whenever a packet is lost, and protect nothing beyond the region's key except by their lifetime.
package verbs
