// Package multipath keeps a subsystem reachable: it connects a controller anew when
// it is lost, and spreads requests over several controllers, the paths.
//
// [Connect] makes a [Subsystem] of one [Path] or more. [Subsystem.Namespace] gives a
// [Namespace] over all of them, which can be used as one of package host: blocking,
// or in batches as a [backend.Store]. While one path works, or may come back, its
// users see no error of a path; they wait. [Subsystem.NewBuffers] is memory that is
// registered with every controller. [Path.Status] is the state of a path.
//
// # The life of a path
//
// A path is connecting until it is live for the first time. When any of its queues ends,
// or its keep alive is not answered, it is lost: its controller is taken down, and another
// is connected in the background. The first attempt comes after a tenth of
// [Timers].ReconnectDelay, each further one after twice as long, up to that delay; all
// delays are up to a quarter shorter at random, so that the hosts of a target that returns
// do not come at once. After CtrlLossTmo without success the path is dead for good. While
// another path is live, that does not happen to a path that never was live, nor, with
// [Config].KeepLost, to one that was. Refusals do not end a path, since a target that is
// being set up refuses for a while; Linux gives up at Do Not Retry. A path that never was
// live, and is refused with Do Not Retry or leads to another subsystem, is tried after
// ReconnectDelay, and then ever more rarely, up to eight times that.
//
// Paths do not affect each other: each identifies the namespaces by itself, so that one
// whose controller hangs then does not delay others. [Subsystem.Namespace] waits for such a
// path a second longer than for the first that answers.
//
// # Which path
//
// Each new controller has to belong to the same subsystem, and a namespace has to be the
// same on all paths: by UUID, NGUID and EUI64, size and block size. A [*MismatchError] says
// what differs; such a path is not used for that namespace.
//
// The ANA log says for each path whether it is optimized (preferred), non-optimized (used
// if no path is optimized) or inaccessible, in persistent loss or changing (not used). It is
// read after each connection, after each event that it has changed, and when a command
// comes back with a status that contradicts it. The log also tells when a namespace moves to
// another group; a namespace that it does not list is looked up in its Identify data, which
// are read after each event about namespaces. If a group stays in the state Change for
// longer than ANATT, its path is connected again.
//
// Among the best paths, the [Policy] chooses one for each request. NUMA, the default,
// chooses the path whose device is nearest to the processor of the request, by the
// distances between NUMA nodes that the firmware reports. If several are equal, or nothing
// is reported, it stays with one, initially the first.
//
// # Namespaces that change
//
// After a controller's event about its namespaces, its path identifies the open ones again.
// A [Namespace] has the smallest size that any live path reports: it shrinks with the first
// path and grows with the last. Requests beyond its end fail with ErrOutOfRange, those on
// their way with the target's status. A path that returns with another size is not used
// while others have the namespace, and is checked again when their size changes. A path
// whose controller no longer has the namespace, or has another in its place, or one that
// this host cannot use, is not used for it; if that is so of all paths, requests fail with
// an error that is a [host.ErrRemoved]. [Config].NamespaceEvent notifies the owner,
// [Namespace.Err] is the reason. If a controller does not report what the namespace is now,
// it gets no request until it does: Identify is sent again after a tenth of a second, and
// then ever more rarely, up to ReconnectDelay.
//
// While a path identifies a namespace, no request for it is on its way there. After another
// namespace took the identifier, a target may refuse requests (Namespace Not Ready) until
// Identify has returned what is there; from then on, no request for the old namespace may
// arrive. The rate of these checks is bounded, however many events there are.
//
// # What happens to requests
//
// A request that comes back with a path related status, or Namespace Not Ready, and without
// Do Not Retry, has ended in the target: it goes over another path, or waits for one. The
// path is not used until its ANA log was read again, or for 100 ms, or for the time that the
// controller requests (CRD). After another transient status (internal error, command
// interrupted) a request is retried five times.
//
// Requests wait while some path is live or tries to be, its namespace has not been in
// persistent loss for ANATT, and FastIOFailTmo has not passed since it was lost. Then they
// fail with a [*NoPathError], which has the reasons of all paths. As in Linux, a path that
// is live and inaccessible keeps them waiting, however long. A path that came back without
// the namespace keeps them waiting for FastIOFailTmo, or else CtrlLossTmo, since the
// namespace may still appear.
//
// # Writes whose path was lost
//
// A command on a lost path may have been executed or not. Worse, it may be executed later:
// it may lie in a buffer of the target, or of a network that is cut in one direction, or
// wait for its storage. Suppose it were repeated on another path at once and acknowledged.
// Then a newer write of the same blocks could be acknowledged too, and after that the old
// command could take effect: an acknowledged write would be undone.
//
// Linux up to 6.12 repeats at once, and leaves this to the target. NVMe base 2.1 (9.6, by
// TP4129) says how long a host has to wait: a target notices the end of the keep alives
// within two KATO, or three where traffic restarts its timer (CTRATT.TBKAS, as with Linux's
// target and ours), and has then ended all commands of the controller within CQT. It rounds
// KATO up to a multiple of its granularity (KAS): to seconds in Linux's target and ours, to
// ten seconds in SPDK's. This package follows that. Reads and flushes are repeated at once.
// Writes, Write Zeroes and deallocations wait for that long from the moment at which the
// loss of the path is found: with the default KATO of 5 s for 15 s, or 20 s with SPDK's
// target. Only requests that were on their way then wait; others, even of the same blocks,
// use the remaining paths at once. No write fails before that time, whatever FastIOFailTmo
// says: when a caller gets the result of a write, nothing of it can happen any more.
//
// The wait is much shorter if the target still responds. A controller that lost only an I/O
// queue, or whose path is removed, is shut down by its admin queue, as in every orderly
// disconnect. When CSTS.SHST says that this is complete, no command of it is left, and the
// writes are repeated one second later (or CQT). The second is for targets that say so at
// once although commands may still be in their storage, as Linux's nvmet does; our target
// and SPDK's wait for these. If a controller does not answer within a second, or is not shut
// down after five, the wait for its keep alive begins then, since this host has kept it
// alive so long.
//
// The guarantee depends on the target: it has to end commands when it says so. A backend
// that hangs for longer, in a call that nobody can take back, breaks it.
// [Timers].ReplayDelay sets another time, which no shutdown shortens; a negative one repeats
// at once, as Linux does.
//
// For other commands, this package does not know whether they may be repeated.
// [Namespace.Use] executes them, and returns the error. A command that must not be executed
// twice, such as Compare and Write or a change of reservations, fails with an
// [*UnknownError] if its path is lost before its result arrives.
//
// A context bounds the wait: [Namespace.ReadAtContext] and similar methods return its error.
// A write on a lost path returns it when nothing of the write can happen any more.
//
// A Flush over one path is assumed to cover what was written over others, as the
// specification says of a namespace. Separate targets that share a store have to ensure
// that.
//
// # Power failures
//
// What a target has acknowledged and not flushed is lost if its machine loses power; a later
// Flush succeeds, since nothing is left to be flushed. NVMe has no means against that; with a
// local disk, the host loses power too. If the target says that its machine has restarted
// ([capsule.WriteVerifier]), and writes of the previous boot were not flushed, the next Flush
// of the namespace fails with [ErrWritesLost], over whichever path it goes, and by whichever
// path the host learns of it. The same happens if a path leads to another target than
// before, and none leads to the previous one any more. Later flushes succeed. A flush through
// any path covers what was written through all, as above: if several targets share a store,
// each with a volatile cache, and all lose power, the first that returns may answer for
// another.
//
// # Who owns what
//
// Each path has one goroutine, which alone connects, disconnects, reads the ANA log
// and steps the path's life (internal/decide, a pure value). What requests go by is a
// table for each namespace that does not change, behind an atomic pointer. A [Queue]
// belongs to one goroutine and has a queue of package host on each path; it learns of
// a new table by its notify function, or by its descriptor ([backend.Watchable]), which
// stays the same as paths come and go. Counters of paths are atomic. The lock
// session.looking comes before Subsystem.mu, as does Subsystem.sharing, and that before
// Namespace.mu; only the first is held during commands, which are those of one session.
//
// # Not here yet
//
// Cross-controller reset (TP8028), by which a path would end the commands of a lost
// one at once.
// Discovery of paths.
package multipath
