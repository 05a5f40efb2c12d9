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
// A path is connecting until it is live for the first time. When any of its queues
// ends, or its keep alive has no answer, it is lost: its controller is taken down, and
// another is connected in the background. The first attempt comes after a tenth of
// [Timers].ReconnectDelay, each further one after twice as long, up to that delay; all
// are up to a quarter shorter by chance, so that the hosts of a target that returns do
// not come at once. After CtrlLossTmo without success the path is dead for good; one that
// never was live is not while another is, nor, with [Config].KeepLost, is one that was. Whatever the target says, the path tries on,
// since a target that is being set up anew refuses for a while; Linux gives up at Do Not
// Retry. One that never was live, and is refused so or leads elsewhere, is tried after
// ReconnectDelay, and then ever more rarely, up to eight times that. What becomes of one
// path is nothing to the others: each identifies the namespaces by itself, and one whose
// controller hangs then delays no other. [Subsystem.Namespace] waits for it a second longer
// than for the first that answers.
//
// # Which path
//
// Each new controller has to be of the same subsystem, and a namespace the same on
// all paths: by UUID, NGUID and EUI64, size and block size. A [*MismatchError] says
// what is not; such a path is not used for that namespace.
//
// The ANA log says for each path whether it is optimized (preferred), non-optimized (used
// where nothing is optimized) or inaccessible, in persistent loss or changing (not used).
// It is read after each connection, after each event that it has changed, and when a
// command comes back with a status that contradicts it. So is a namespace that moves to
// another group followed; where the log does not name it its Identify data do, which are
// read after each event about namespaces. A group that stays in the state Change for
// longer than ANATT has its path connected anew. Among the best paths the [Policy]
// chooses, for each request. NUMA, the default, takes the one whose device is at the node
// of the processor of the request, or nearest to it, by the distances that the firmware
// reports; of equals, and where it reports none, it stays with one, at first the first.
//
// # Namespaces that change
//
// A controller's event that something is different about its namespaces has its path look
// at those that are open. A [Namespace] has the least size that the live paths know: it
// shrinks with the first of them and grows with the last; requests beyond it get
// ErrOutOfRange, those that are on their way what the target says. A path that comes back
// with another size is not used as long as others have the namespace, and looks again
// when those change theirs. One whose controller has the namespace no more, or another in
// its place, or one that this host cannot use, is not used for it; when that is all of
// them, requests fail with an error that is a [host.ErrRemoved]. [Config].NamespaceEvent
// notifies the owner, [Namespace.Err] is the reason. Where a controller does not report
// what the namespace is now, nothing is sent there until it does: Identify is sent again
// after a tenth of a second, and then ever more rarely, up to ReconnectDelay.
//
// While a path looks at a namespace no request is on its way to it. A target may
// refuse requests after another namespace took the identifier (Namespace Not Ready),
// until Identify has returned what is there: then none that was meant for the
// old one may arrive. How often a path looks is bounded, however many events there are.
//
// # What happens to requests
//
// A request that comes back with a path related status, or Namespace Not Ready, and
// without Do Not Retry, is over in the target: it goes over another path, or waits for
// one. The path is not used until its ANA log was read again, or for 100 ms, or for
// the time that the controller requests (CRD). Other status that may pass (internal
// error, command interrupted) is tried five times more.
//
// Requests wait as long as some path is live or tries to be, its namespace has not been in
// persistent loss for ANATT, and FastIOFailTmo has not passed since it was lost. Then they
// fail with a [*NoPathError], which has the reasons of all paths. As in Linux, a
// path that is live and inaccessible keeps them waiting, however long; one that came
// back without the namespace does so for FastIOFailTmo, or else CtrlLossTmo, in case
// that is still to come.
//
// # Writes whose path was lost
//
// A command on a path that is lost may have been executed or not, and, worse, may be
// executed yet: it lies in a buffer of the target, or of a network that is cut in one
// direction, or waits for its storage. If it were repeated on another path at once,
// and acknowledged, then a newer write of the same blocks could be acknowledged too,
// and after that the old one could take effect: an acknowledged write is undone.
//
// Linux up to 6.12 repeats at once, and leaves this to the target. NVMe base 2.1
// (9.6, by TP4129) says how long a host has to wait: a target notices the end of the
// keep alives within two KATO, or three where traffic restarts its timer (CTRATT.TBKAS,
// as with Linux's target and ours), and has then ended all commands of the controller
// within CQT. It rounds KATO up to a multiple of its granularity (KAS): to seconds in
// Linux's target and ours, to ten seconds in SPDK's. So does this package: reads and
// flushes are repeated at once; writes, Write Zeroes and deallocations wait for that long
// from the moment at which the path is found to be lost: with the default KATO of 5 s for
// 15 s, or 20 s with SPDK's target. Only requests that were on their way then wait;
// others, of the same blocks too, go over the remaining paths at once. Nor does a write fail before that time, whatever FastIOFailTmo says: when a
// caller gets the end of a write, nothing of it can happen any more.
//
// It is much less where the target still responds. A controller that lost an I/O
// queue alone, or whose path is taken away, is shut down by its admin queue, as every
// orderly disconnect does. When CSTS.SHST says that this is complete, no command of it is
// left, and one second later (or CQT) the writes are repeated. The second is for targets
// that say so at once, though commands may still be in their storage, as Linux's nvmet
// does; our target and SPDK's wait for these. A controller that does not answer within a
// second, or is not through after five, is waited for by its keep alive, counted from
// then: so long this host has kept it alive.
//
// The guarantee is as good as the target's: it has to end commands when it says so. A
// backend that hangs for longer, in a call that nobody can take back, breaks it.
// [Timers].ReplayDelay sets another time, which no shutdown shortens: a negative one does
// as Linux does.
//
// Of anything else than those commands this package does not know whether it may be
// repeated. [Namespace.Use] carries it out, and gets the error. What must not be done twice,
// as Compare and Write or what changes reservations, fails with an [*UnknownError] if
// its path is lost before it comes back.
//
// A context bounds the wait: [Namespace.ReadAtContext] and its kin return its error. A
// write on a path that is lost returns it when nothing of the write can happen any more.
//
// A Flush over one path is taken to cover what was written over others, as the
// specification says of a namespace. Targets of their own with one store between them
// have to see to that.
//
// # Power failures
//
// What a target has acknowledged and not flushed is lost with the power of its machine; a
// Flush after it succeeds, since nothing is left to be flushed. NVMe has no means against
// that, which between a local disk and its host is needless. Where the target says that
// its machine has restarted ([capsule.WriteVerifier]), and writes through that boot were
// not flushed, the next Flush of the namespace fails with [ErrWritesLost], whichever path
// it takes, or the host meets the target by. So it does where a path leads to another target than before, and none to
// that one any more. Later ones succeed. A flush through any path covers what was written through all,
// as above: where several targets have one store, and a volatile cache of it each, and all
// lose power, one that returns first may answer for another.
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
