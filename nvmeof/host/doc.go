// Package host implements the host role of NVMe over Fabrics: it discovers subsystems, connects to controllers, and
// reads and writes their namespaces.
//
// A [Host] uses one RDMA device and runs event loops on it. [Host.Discover] reads the log of a discovery controller.
// [Host.Connect] makes a [Controller], an association with one admin queue and some I/O queues. [Controller.Namespace]
// opens a [Namespace], which can be used in two ways:
//
//   - blocking, from any number of goroutines: ReadAt, WriteAt, Flush, and, as far as the controller supports them,
//     Compare, CompareAndWrite, Copy, Discard, Verify, WriteZeroes and [Reservations]. ReadVectored and WriteVectored
//     take several buffers. A goroutine that waits alone runs the event loop of its queue itself.
//   - in batches, from one goroutine per queue: a Namespace is a [backend.Store], and [Namespace.OpenQueue] opens a
//     [Queue], which takes requests in slices without allocating.
//
// Data in memory of the controller's [Buffers] is transferred without a copy; data in any other memory is copied
// through internal buffers of the controller.
//
// [Controller.Identify], [Logs], [Features] and [Properties] give access to what a controller reports and what can be
// configured. [Controller.Admin] and [Namespace.Execute] send any command.
//
// # Memory
//
// Each command has its own key, that of a memory window. Until the operation returns, the key lets the controller read
// the data of a write, or write the data of a read, and access nothing else. With Options.SharedKeys, and on devices
// without memory windows, there are instead two keys for as long as the memory is registered, one to read and one to
// write: a controller that keeps them can use them later.
//
// If a controller completes a Read with success but sends no data, the buffer keeps its previous content. With
// softroce, which counts the data that arrives under a command's key, the result is then [ErrShortData]. With an RNIC
// or shared keys, this cannot be detected.
//
// # Namespaces that hang
//
// The namespaces of a controller share its queues and memory, and the controllers of a host share its shards. If the
// commands of a namespace get no response, limits keep that namespace from using up what the others need, until its
// controller is given up:
//
//   - Half of an I/O queue's entries are for all namespaces. The other half is divided among the open namespaces; if
//     that is less than one entry each, it is for namespaces that have none in use.
//   - Of the memory for data outside of Buffers, a namespace uses no more than it leaves free.
//   - A shard's receive buffer is small for an unprivileged user of Linux. While others wait for space in it, a read
//     occupies space for at most a tenth of a second. A namespace whose reads take longer then shares a quarter of the
//     space, for ten seconds, with others like it.
//
// # Cancellation
//
// When a context ends, or a request exceeds [Queue.SetTimeout], its commands are aborted. The operation returns when
// they have completed or the association has ended, so that nothing accesses its memory after that. This can take
// longer than the context: few controllers abort a command that they have passed to their storage. If that storage
// hangs, the return is delayed until it answers, or until the controller is given up after Options.Timeout. A caller
// that must not wait sets a shorter Timeout, or calls from another goroutine with separate memory.
//
// # Errors
//
// Use [errors.Is] and [errors.As] for errors of blocking calls and for those in the results of a [Queue]:
//
//   - [*StatusError] reports a command that the controller completed with an error. Its Status has the code, which can
//     be compared with those of package capsule, and says whether the same command would fail again (DNR). Some codes
//     match other errors too: [ErrReserved], [ErrRemoved], and [backend.ErrMiscompare], [backend.ErrReadOnly],
//     [backend.ErrNoSpace], [backend.ErrOutOfRange] and [backend.ErrInvalid].
//   - [ErrUnaligned], [ErrOutOfRange], [ErrUnsupported], [ErrRemoved], [ErrUnseen] and [ErrNotReady] report requests
//     that were not sent. A Queue checks requests as every [backend.Store] does, with the errors of that package.
//   - An error of ctx, or [ErrDeadline], reports a request that was ended early.
//   - [ErrShortData] reports a read whose buffer may not contain the controller's data.
//   - [*ConnectError] reports that a connection could not be made: at which step, which side refused it, and what to do.
//   - When a controller is lost, because a queue failed or a Keep Alive got no response, all outstanding requests fail
//     with the reason, [Controller.Err] returns it, and Done is closed. Requests that had not been sent fail with an
//     [*UnsentError] that wraps it. After [Controller.Disconnect] the reason is [ErrClosed].
//
// # Authentication
//
// If a controller requires authentication, the host authenticates itself on each queue with [Options].DHCHAPSecret; see
// package auth. With DHCHAPCtrlSecret the controller must authenticate itself as well, except a discovery controller
// that requires no authentication. [Controller.Authenticate] authenticates again, with other keys if necessary. An
// [*AuthError] says which side refused.
//
// # Not supported
//
// Protection information, metadata, and namespaces of other command sets are not supported. Reconnecting and
// multipathing are in package multipath.
package host
