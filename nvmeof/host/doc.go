// Package host is the host's role of NVMe over Fabrics: it discovers subsystems,
// connects to controllers and reads and writes their namespaces.
//
// A [Host] has an RDMA device and its loops. [Host.Discover] reads the log of a discovery
// controller; [Host.Connect] makes a [Controller], an association
// with one admin queue and some I/O queues; [Controller.Namespace] gives a
// [Namespace], which can be used in two ways:
//
//   - blocking, from any number of goroutines: ReadAt, WriteAt, Flush, and what else
//     the controller has of Compare, CompareAndWrite, Copy, Discard, Verify,
//     WriteZeroes and [Reservations]. A goroutine that waits alone drives the loop of
//     its queue itself. ReadVectored and WriteVectored take several buffers.
//   - in batches, from one goroutine per queue: a Namespace is a
//     [backend.Store], and [Namespace.OpenQueue] gives a [Queue] that takes
//     requests in slices, without allocating.
//
// Data in memory of the controller's [Buffers] moves without a copy; any other
// memory is copied through buffers of the controller's own.
//
// What a controller reports and accepts is in [Controller.Identify], [Logs],
// [Features] and [Properties]. [Controller.Admin] and [Namespace.Execute] send any
// command there is.
//
// # Memory
//
// A command's key, of a memory window, lets the controller read what is written, or
// write what is read, nothing beside it, and nothing any more when the operation
// returns. With [Options].SharedKeys, and on devices without windows, there are two
// keys for as long as the memory is registered, one to read and one to write: a
// controller that keeps them can use them later.
//
// A controller that completes a Read with success, and sends nothing, would have the
// caller read what was in the buffer before. With softroce, which counts what comes by a
// command's key, that is an [ErrShortData]; with an RNIC, or shared keys, it cannot be
// seen.
//
// # Namespaces that hang
//
// What the namespaces of a controller, and the controllers of a host, have in common is shared,
// so that one whose commands get no answer leaves their rate to the others until its controller
// is given up. Of an I/O queue's entries half are for all, and the other half are divided among
// the namespaces that were opened; where that is less than one each, it is for those that have
// none. Of the memory for data outside of Buffers a namespace has no
// more than it leaves free. What reads have taken of a shard's receive buffer, of
// which an ordinary user on Linux has little, counts for a tenth of a second
// while others wait for it; for ten seconds from then on a namespace shares a quarter of as much
// with others like it.
//
// # Cancellation
//
// A context that ends, or a request that exceeds [Queue.SetTimeout], has its commands
// aborted. The operation returns when they have their answers or the association has
// ended, so that nothing touches its memory after that. That can take longer than the
// context: few controllers abort a command that their storage has, so that one whose
// storage hangs delays the return until it answers, or for [Options].Timeout, after
// which the controller is given up. Who must not wait gives a shorter Timeout, or calls
// from a goroutine of its own with memory of its own.
//
// # Errors
//
// Errors are to be judged by [errors.Is] and [errors.As], those of blocking calls and
// those in the results of a [Queue] alike:
//
//   - [*StatusError] is a command that the controller completed with an error. Its Status
//     has the code, to be compared with those of package capsule, and says whether the
//     same command would fail again (DNR). Some codes are errors of their own too:
//     [ErrReserved], [ErrRemoved], and [backend.ErrMiscompare], [backend.ErrReadOnly],
//     [backend.ErrNoSpace], [backend.ErrOutOfRange] and [backend.ErrInvalid].
//   - [ErrUnaligned], [ErrOutOfRange], [ErrUnsupported], [ErrRemoved], [ErrUnseen] and
//     [ErrNotReady] are requests that were not sent. A Queue checks them as every
//     [backend.Store] does, with the errors of that package.
//   - An error of ctx, or [ErrDeadline], is a request that was ended early.
//   - [ErrShortData] is a read whose data is not what the controller has.
//   - [*ConnectError] is a connection that was not made. It says at which step, who
//     refused it, and what to do.
//   - When a controller is lost, because a queue failed or its keep alive was not
//     answered, everything outstanding ends with the reason, which [Controller.Err]
//     repeats, and Done is closed. It is an [*UnsentError] for what had not been sent.
//     After [Controller.Disconnect] it is [ErrClosed].
//
// # Authentication
//
// A controller that requires authentication gets the proof of
// [Options].DHCHAPSecret on each queue; see package auth. With DHCHAPCtrlSecret it
// must prove itself as well, except a discovery controller that requires nothing.
// [Controller.Authenticate] does so again, with other keys if need be. An
// [*AuthError] says which side refused.
//
// # Not here yet
//
// Protection information, metadata, namespaces of other command sets. Reconnecting
// and several paths are package multipath's.
package host
