// Package multipath keeps a subsystem reachable: it reconnects controllers that are lost, and distributes requests over
// several controllers, called paths.
//
// [Connect] makes a [Subsystem] with one or more [Path]s. [Subsystem.Namespace] opens a [Namespace] over all of them,
// which can be used like one of package host: blocking, or in batches as a [backend.Store]. As long as one path works,
// or may come back, its users see no error of a path; their requests wait. [Subsystem.NewBuffers] allocates memory that
// is registered with every controller. [Path.Status] returns the state of a path.
//
// # Path states
//
// A path is connecting until it is live for the first time. When any of its queues ends, or Keep Alive gets no
// response, it is lost: its controller is torn down, and another one is connected in the background. The first attempt
// is made after a tenth of [Timers].ReconnectDelay, and each further one after twice the previous delay, up to
// ReconnectDelay. All delays are shortened at random by up to a quarter, so that the hosts of a target that restarts do
// not all reconnect at once. After CtrlLossTmo without success the path is dead, which is final. While another path is
// live, this does not happen to a path that has never been live, or, with [Config].KeepLost, to any path.
//
// Refusals do not end a path, since a target that is being set up refuses connections for a while (Linux gives up at Do
// Not Retry). A path that has never been live, and is refused with Do Not Retry or leads to another subsystem, is tried
// again after ReconnectDelay, and then at increasing intervals, up to eight times that.
//
// Paths do not affect each other: each identifies the namespaces independently, so that a controller that hangs does
// not delay other paths. [Subsystem.Namespace] waits for such a path one second longer than for the first that
// responds.
//
// # Path selection
//
// Each new controller must belong to the same subsystem, and a namespace must be the same on all paths: the same UUID,
// NGUID and EUI64, size and block size. A [*MismatchError] says what differs; such a path is not used for that
// namespace.
//
// The ANA log says for each path whether it is optimized (preferred), non-optimized (used if no path is optimized), or
// inaccessible, in persistent loss or changing (not used). It is read after each connection, after each ANA change
// event, and when a command completes with a status that contradicts it. The log also shows when a namespace moves to
// another group. A namespace that the log does not list is looked up in its Identify data, which are read after each
// namespace event. If a group stays in the state Change for longer than ANATT, its path is reconnected.
//
// Among the best paths, the [Policy] chooses one for each request. NUMA, the default, chooses the path whose device is
// nearest to the processor of the request, according to the distances between NUMA nodes that the firmware reports. If
// several are equally near, or nothing is reported, it stays with one, initially the first.
//
// # Namespace changes
//
// After a namespace event of a controller, its path identifies the open namespaces again. A [Namespace] has the
// smallest size that any live path reports: it shrinks with the first path and grows with the last. Requests beyond its
// end fail with ErrOutOfRange; those in flight get the target's status. A path that reconnects with another size is not
// used while others have the namespace, and is checked again when their size changes.
//
// A path is not used for a namespace if its controller no longer has it, has another in its place, or has one that this
// host cannot use. If that is so on all paths, requests fail with an error that matches [host.ErrRemoved].
// [Config].NamespaceEvent notifies the owner, and [Namespace.Err] returns the reason. If a controller does not report
// what the namespace is now, it gets no request until it does: Identify is sent again after a tenth of a second, and
// then at increasing intervals, up to ReconnectDelay.
//
// While a path identifies a namespace, no request for it is in flight there. After another namespace took the
// identifier, a target may fail requests (Namespace Not Ready) until it has answered Identify; from then on, no request
// for the old namespace may arrive. The rate of these checks is bounded, however many events there are.
//
// # Retries
//
// A request that completes with a path related status, or Namespace Not Ready, and without Do Not Retry, has ended in
// the target: it is sent over another path, or waits for one. The path is not used until its ANA log has been read
// again, or for 100 ms, or for the time that the controller requests (CRD). After another transient status (internal
// error, command interrupted) a request is retried five times.
//
// Requests wait as long as some path is live or reconnecting, its namespace has not been in persistent loss for ANATT,
// and FastIOFailTmo has not passed since the path was lost. Then they fail with a [*NoPathError], which has the reasons
// of all paths. As in Linux, requests wait for a path that is live and inaccessible without limit. If a path reconnects
// without the namespace, they wait for FastIOFailTmo, or else CtrlLossTmo, since the namespace may still appear.
//
// # Writes whose path was lost
//
// A command on a lost path may have been executed or not. Worse, it may be executed later: it may be in a buffer of the
// target, or of a network that is partitioned in one direction, or may wait for the target's storage. Suppose it were
// repeated on another path at once and acknowledged. Then a newer write of the same blocks could be acknowledged too,
// and after that the old command could take effect: an acknowledged write would be undone.
//
// Linux up to 6.12 repeats at once, and leaves the problem to the target. NVMe base 2.1 (9.6, by TP4129) says how long
// a host has to wait. A target notices that keep alives have ended within two KATO, or three if traffic restarts its
// timer (CTRATT.TBKAS, as in Linux's target and ours), and has then ended all commands of the controller within CQT. It
// rounds KATO up to a multiple of its granularity (KAS): to seconds in Linux's target and ours, to ten seconds in
// SPDK's.
//
// This package follows that. Reads and flushes are repeated at once. Writes, Write Zeroes and deallocations wait for
// that long from the moment at which the loss of the path is found: with the default KATO of 5 s for 15 s, or 20 s with
// SPDK's target. Only requests in flight at that moment wait; others, even of the same blocks, use the remaining paths
// at once. No write fails before that time, whatever FastIOFailTmo says: when a caller gets the result of a write, no
// part of it can take effect any more.
//
// The wait is much shorter if the target still responds. A controller that lost only an I/O queue, or whose path is
// deleted, is shut down through its admin queue, as in every orderly disconnect. When CSTS.SHST says that the shutdown
// is complete, no command of the controller is left, and the writes are repeated one second later (or CQT). The second
// is for targets that report this at once although commands may still be in their storage, as Linux's nvmet does; our
// target and SPDK's wait for such commands. If a controller does not answer within a second, or its shutdown is not
// complete after five, the wait for its keep alive begins then, since this host has kept it alive so long.
//
// The guarantee depends on the target: it must end commands when it says so. A backend that hangs for longer, in a call
// that cannot be canceled, breaks it. [Timers].ReplayDelay sets another time, which no shutdown shortens; a negative
// one repeats at once, as Linux does.
//
// For other commands, this package does not know whether they may be repeated. [Namespace.Use] executes them, and
// returns the error. A command that must not be executed twice, such as Compare and Write or a change of reservations,
// fails with an [*UnknownError] if its path is lost before its result arrives.
//
// A context bounds the wait: [Namespace.ReadAtContext] and similar methods return its error. A write on a lost path
// returns it when no part of the write can take effect any more.
//
// A Flush over one path is assumed to cover writes over all paths, as the specification says of a namespace. Separate
// targets that share a store must ensure that.
//
// # Power failures
//
// What a target has acknowledged and not flushed is lost if its machine loses power; a later Flush succeeds, since
// nothing is left to be flushed. NVMe has no means against that; with a local disk, the host loses power too.
//
// If the target says that its machine has restarted ([capsule.WriteVerifier]), and writes of the previous boot were not
// flushed, the next Flush of the namespace fails with [ErrWritesLost]. It does not matter on which path the flush is
// sent, or on which path the host learns of the restart. The same happens if a path leads to another target than
// before, and no path leads to the previous one any more. Later flushes succeed. As above, a flush on any path covers
// writes on all paths. So if several targets share a store, each with a volatile cache, and all lose power, the first
// that returns may answer for another.
//
// # Ownership and locks
//
// Each path has one goroutine, which alone connects, disconnects, reads the ANA log and steps the path's state machine
// (internal/decide, a pure value). Requests use an immutable table of routes for each namespace, behind an atomic
// pointer.
//
// A [Queue] is owned by one goroutine and has a queue of package host on each path. It is told of a new table by its
// notify function, or by its descriptor ([backend.Watchable]), which stays the same when paths are added and removed.
// Counters of paths are atomic.
//
// Lock order: session.looking and Subsystem.sharing are locked before Subsystem.mu, and Subsystem.mu before
// Namespace.mu. Only session.looking is held during commands, which are those of one session.
//
// # Not supported
//
// Cross-controller reset (TP8028), with which one path would end the commands of a lost one at once, and discovery of
// paths are not supported.
package multipath
