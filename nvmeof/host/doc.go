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
// Each command has a key of its own, that of a memory window, which lets the controller
// read what is written, or write what is read, and nothing beside it, until the operation
// returns. With Options.SharedKeys, and on devices without windows, there are two keys for
// as long as the memory is registered, one to read and one to write: a controller that
// keeps them can use them later.
//
// If a controller completes a Read with success and sends no data, the caller would read
// the previous content of the buffer. With softroce, which counts what arrives under a
// command's key, that is an [ErrShortData]; with an RNIC, or shared keys, it cannot be
// detected.
//
// # Namespaces that hang
//
// The namespaces of a controller share its queues and memory, and the controllers of a
// host share its shards. Limits keep a namespace whose commands get no answer from using
// up what the others need, until its controller is given up:
//
//   - Half of an I/O queue's entries are for all namespaces; the other half is divided
//     among the namespaces that were opened, or, where that is less than one each, is for
//     those that have none in use.
//   - Of the memory for data outside of Buffers, a namespace has no more than it leaves
//     free.
//   - A shard's receive buffer, which is small for an ordinary user of Linux: what the
//     reads of a namespace occupy while others wait for it counts for a tenth of a second;
//     for ten seconds from then on, the namespace shares a quarter of that space with
//     others like it.
//
// # Cancellation
//
// When a context ends, or a request exceeds [Queue.SetTimeout], its commands are aborted.
// The operation returns when they are answered or the association has ended, so that
// nothing touches its memory after that. This can take longer than the context: few
// controllers abort a command that their storage has, so a hanging storage delays the
// return until it answers, or for Options.Timeout, after which the controller is given up.
// A caller that must not wait sets a shorter Timeout, or calls from another goroutine with
// memory of its own.
//
// # Errors
//
// Use [errors.Is] and [errors.As] for errors of blocking calls and for those in the
// results of a [Queue]:
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
