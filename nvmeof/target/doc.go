// Package target implements the target role of NVMe over Fabrics: subsystems with namespaces whose data is in
// stores of package backend, the controllers that hosts connect to, and discovery controllers.
//
// [New] creates a [Target] on a device. [Target.AddSubsystem] adds a subsystem, [Subsystem.AddNamespace] a
// namespace, [Target.Listen] a listener, and [Subsystem.AllowHost] a host; other hosts are refused. All of these
// can change while hosts are connected. The packages below backend implement stores in memory, in files and on
// block devices; any other [backend.Store] works too. Devices and stores belong to the caller, who closes them
// after [Target.Close]. The examples are complete programs.
//
// The sections up to "Not supported" are for callers of the package; those from "Layers" on are for its
// maintainers.
//
// # Changes while hosts are connected
//
// Everything except names can be added, changed and removed at any time, by the methods of [Target], [Subsystem],
// [Namespace] and [Listener]. A change applies to commands that begin after the call has returned; earlier
// commands complete under the old configuration. Only the hosts whose view changes are notified by an event.
//
//   - Each subsystem has an entry for each host, with the host's right to each namespace. Hosts without an entry
//     are not allowed. Removing an entry ends the host's connections.
//   - A store is opened once, even if namespaces of several subsystems export it. Each namespace has its own
//     rights, ANA group and pause. The removal of a namespace ends when its last command has completed.
//   - A command only reaches the namespace that its host intends. After a namespace with another identity or other
//     blocks has taken over an NSID, the host's commands for the NSID wait for a short time and then fail with
//     Internal Path Error, which hosts retry. That ends when the host has identified the new namespace (Identify,
//     CNS 00h, and 03h if the host uses it) and has certainly processed the response: either it identifies the
//     namespace once more, for which the event is repeated, or a second has passed. On a new connection, commands
//     wait until the host has identified their namespace, up to 5 s after the last Identify; then commands that
//     arrived before that have to be retried. A host that has identified nothing by then is assumed to keep what
//     it knew before.
//   - Removing a listener, or a subsystem from a listener, ends the connections through it. To let hosts change
//     paths first, set the listener's ANA groups to inaccessible.
//   - Removing a device ends its listeners, and waits for the commands of its connections.
//   - Locks are taken in the order Subsystem.change, Target.mu, Subsystem.mu, the hosts' own locks. Shards take
//     the last three, so nothing may wait for a call to a shard while it holds one of those.
//
// # Do Not Retry
//
// The flag makes hosts give up: Linux since 6.10 removes a controller if its Connect command fails with the flag
// during a reconnect, and does not retry a request that fails with it on another path. It is set if the same
// command would always get the same status:
//
//   - protocol errors of the host: malformed fields, an opcode, feature, log page or property that does not exist,
//     a wrong order of commands, ranges beyond the end;
//   - an administrator's decision: no such subsystem, host or namespace, not on this listener, read-only. While a
//     [Target.Change] is under way, and while the target is behind others ([Gateway.SetBehind]), a Connect command
//     fails with Controller Busy instead;
//   - another host's decision: a reservation conflict, write protection; and a full store, which file systems have
//     to report.
//
// It is not set if a retry may succeed: no controller identifier is free, the host has the maximum number of
// controllers, or is not ready ([HostConfig.Unready]), an earlier controller or queue of the host has not ended
// yet, another host uses the host identifier at present, too many hosts authenticate at a time, a store fails, an
// ANA state, a namespace that is away or was replaced. The rejection of a connection request has no such flag.
//
// A namespace whose store is missing for now ([Subsystem.AwaitNamespace], [Subsystem.SuspendNamespace]) is called
// away. Hosts find it in lists, with its identifiers, without a size and not ready. It is in an ANA group of its
// own, which is inaccessible through every listener.
//
// # Several targets
//
// With [Config.Gateway] the target is one of several that serve the same subsystems over shared storage. Each ANA
// group is served by one target at a time. The caller decides by which, and controls the target by
// [Gateway.Serve], [Gateway.Drain], [Gateway.Stop] and [Gateway.Fence]. The state of a group through a listener is
// the worse of the listener's own state and the state that the Gateway allows. Both are combined in one table, so
// that each command needs only one check. A namespace whose store is open at another target
// ([NamespaceConfig].Known) is away, but in its own group and with its size. When this target begins to serve it,
// it stays the same for hosts, which need not identify it again. If a store fails a command of a group that the
// target no longer serves, the status is ANA Inaccessible, since the new owner of the group has fenced this
// target.
//
// Reservations move with the group if a [ReservationKeeper] keeps them: each change, with its notices, is saved
// before its command completes, and loaded before the namespace is served. If a keeper returns [ErrNotOwner], the
// target stops serving the namespace (ANA Inaccessible). Without a keeper, hosts cannot reserve.
//
// # Several devices
//
// A device is an RNIC, or the one address of a softroce device. Devices are added and removed while the target
// runs ([Target.AddDevice], [Device.Remove]). Each has its own shards, protection domain and listeners; everything
// else belongs to the target: hosts find the same subsystems through each device, with the same namespaces and
// reservations, and controller identifiers are unique in the subsystem. Each listener has its own ANA states. A
// controller belongs to the listener through which its admin queue was connected, and so do all its queues.
//
// A volume has a lane, and a namespace a gate, for each shard; both are indexed by the shard's number among those
// of all devices. They exist before the shard has its first queue, and remain for the next shard of that number.
//
// Each I/O queue has its own receives and capsule buffers or, with [Config.SharedReceives], shares those of its
// shard. In that case a queue uses at most as many at a time as it has entries. If a host sends more, the queue
// ends, so that no queue uses more than its part of the shared receives.
//
// # What survives the target
//
// With [SubsystemConfig.State], the counters of the SMART page, the number of errors, and the write protection
// that hosts set survive restarts. The record is saved when write protection changes (before the command
// completes), when the target starts and ends, and at most once a minute while hosts send commands. A crash loses
// that minute, and counts as an unsafe shutdown. Without State they last as long as the target, even if a
// namespace is removed and added again. So does write protection until the next power cycle, since the end of the
// target counts as one.
//
// # Authentication
//
// A host that has a key in its [HostConfig] authenticates on each queue, by the exchange of package auth, before
// any other command is executed there. The queue's shard owns the exchange and refuses malformed messages itself.
// For each message that needs an exponentiation, which may take tens of milliseconds, it lends the exchange to the
// target's authenticator. The authenticator has a goroutine for every fourth processor, and serves addresses in
// turn: first those from which hosts have authenticated, last those from which hosts have failed, or left in the
// middle, within the last minute. The last class gets half of the time at most, and every class gets every fourth
// turn at least. If authentication fails on a queue, the whole association ends. If it fails on an I/O queue that
// was never authenticated, only that queue ends: the peer may not be the host. The host may authenticate again at
// any time, and then a changed key is used.
//
// Discovery controllers do not require authentication, whatever key a host has, and neither do those of Linux:
// NVMe base 2.0 leaves it to the controller (8.13). Authentication would only protect the host's log. Anyone who
// knows a host's NQN can read which subsystems allow that host, and where they are, but cannot connect to them:
// each requires authentication on every queue, and the log says so (TREQ). A response to a challenge is bound to
// the NQN of the subsystem. The NQN of the discovery service is the same at every target unless the target has its
// own ([Config.DiscoveryNQN]), so one target could let a host answer the challenge of another. Authentication
// would be useful only with such an NQN, and with hosts and keys of the discovery subsystem in the configuration.
//
// # Not supported
//
// Metadata and protection information, namespace management, firmware download, authentication of discovery
// controllers and subsystem reset. Write Uncorrectable needs a map of bad blocks that survives restarts, and a
// lookup in it for every read and write, for a command that only tests send. A host's Disconnect command also ends
// the connection of its queue.
//
// # Layers
//
// Calls go down, from one of these layers to those below it:
//
//	administration  Target, Device, Listener, Subsystem, Namespace, the discovery log:
//	                the configuration, and the connected hosts
//	session         objects that shards own: queues and controllers, and the fabrics,
//	                admin and I/O commands that they execute
//	storage         internal/storage: volumes with the lanes of shards to them, namespaces
//	                with their gates, reservations, and the view of a host
//	values          the rest of internal, which uses none of the others
//
// The first two are in this package. Each file belongs to one of them: queue.go, request.go, controller.go,
// dispatch.go, io.go and the files that they call are the session. There are few calls upwards. The session calls
// the administration when a host connects (is it allowed, with which rights, and as which controller), when it
// disconnects, and for matters that concern other hosts: events, reservations, and saved state. The storage layer
// only calls the [storage.Owner] of an operation and, if a store hangs, Shard.Stalled.
//
// The other packages are
//
//   - access: which hosts are allowed, and the rights of each
//   - ana: the states of a listener's groups, and their log page
//   - discoverylog: the records of the discovery log, and its page
//   - health: the state of stores, critical warnings, the SMART page
//   - kept, sealed: files that survive a power failure, and their format
//   - life: the counters of a subsystem's lifetime, as they are saved
//   - peerlog: the log, with limits for lines that peers can cause
//   - reservation: the state machine of a reservation
//   - state: those parts of a controller that are values
//
// # Ownership
//
// A [Target] serves on the shards of one or more devices. Each queue belongs to one shard, and only that shard
// uses it and its requests. A controller's state belongs to the shard of its admin queue, except what is under its
// mutex: the set of its queues, which I/O queues on other shards join and leave, and its error log. Subsystems,
// hosts and listeners belong to the administration, under the target's mutex. The data path reads namespaces,
// rights and ANA states from immutable tables behind atomic pointers and takes no lock that can block.
//
// # Four examples
//
// A Read of a namespace in memory. The connection passes the capsule to its queue (queue.Command), which checks
// what is common to all commands (queue.begin) and looks up the opcode (queue.startIO). startRead finds the
// namespace through the controller's view: the host's rights, the listener's ANA states and the subsystem's table
// (View.Reach, Identifications.Knows). It enters the namespace, that is its gate, its reservation and its lane, in
// one call (Namespace.Enter); checks the range (Volume.InRange); and takes the lease (Lane.Lease). The response is
// sent from the store's own memory. When the host has acknowledged it (queue.Done), the request releases lease,
// lane and gate (Operation.Release). If others wait for the lease before that (Lane.urge, request.Wanted), the
// data is copied into a buffer and sent from there. All of it is one chain of calls in the queue's shard.
//
// A Write whose data has to be fetched. The beginning is as above, up to the check of the range, and includes the
// host's right to write (View.MayWrite). The request takes a buffer of the shard, or waits for one, and has the
// connection fetch the data into it; queue.Fetched continues. If the store has memory that can be leased, the data
// is copied under an exclusive lease, and the command completes. Otherwise the operation is put into the lane
// (Lane.Put), which submits it to the store at the end of the turn and polls for its completion (Lane.Poll).
// Owner.Completed then completes the command.
//
// Reservation Acquire. startReservation enters the namespace as above and fetches the keys. Since saving the
// change may block, the request is held and continues outside its shard (request.outside). Controller.reserve
// makes the change (Reservations.Apply, for which package reservation computes the next state). The administration
// then adds notices to the controllers of all subsystems that export the volume, and ends the commands of
// preempted hosts on all shards. Then the command completes in its shard.
//
// An administrator adds a namespace. [Subsystem.AddNamespace] checks the configuration and gets the volume of the
// store (Volumes.Acquire): the first namespace of a store opens it, with a lane in each shard, and each namespace
// gets a gate for each lane. The namespace gets its generation and its saved counters, and is entered into a new
// table, which shards read from then on. Every controller whose host sees it raises the event, in its own shard.
//
// # Connections of unknown hosts
//
// The host of a connection is unknown until its Connect command, and the authentication that may have to follow.
// Such connections may be [Config.MaxSilent] in number, half of that from one address, and use a quarter of
// [Config.QueueMemory]. At the limit, a new connection displaces the oldest one of the address that has the most,
// so that a host that continues without delay gets connected while others send thousands of requests. Addresses
// that have, or had within the last hour, a connection of an allowed host have a limit of their own, and a higher
// one: a host opens all of its I/O queues before it sends the first Connect command. Discovery, which is open to
// all, does not count for that. An IPv6 address with such a connection counts by itself; other addresses count
// together with their network of 64 bits. If an address requests more connections than its limit within a second,
// the excess is refused before any memory is mapped for it.
//
// # Queue memory
//
// The memory that a queue takes ([Config.QueueMemory]) is kept as long as its host is connected. An address may use
// no more than it leaves free, not counting the last eighth. That eighth is reserved for addresses whose hosts are
// or recently were connected, a thirty-second of all memory for each, so that they can reconnect whatever others
// use. The memory of a host that has authenticated counts for the host, whatever its address. The memory of
// unknown hosts counts separately for their address (for IPv6 their network) until the hosts are known.
//
// # Controllers of one host
//
// A host, identified by its NQN and host identifier, has at most [Config.MaxHostControllers] controllers of a
// subsystem. In the discovery service, where names are not verified, the limit is for an address. An address has
// at most half of all controllers, not counting those of hosts that have authenticated, and the last sixteenth of
// the identifiers is for hosts and addresses without a controller. When a host at its limit connects, its
// controller that has been silent for longest is replaced, if that is half a minute or more; otherwise the host
// gets Controller Busy. Until a host with a key has authenticated, its controllers count only for its address, and
// the oldest of them is replaced, so that knowing a host's names is not enough to use up its limit.
//
// A controller without a keep alive timeout stays while its host's transport acknowledges an RDMA WRITE of zero
// bytes, which the target sends whenever two seconds have passed without a command.
//
// A target that was stopped for a while, by a signal or with its machine, may have commands that hosts have since
// repeated on other paths, and whose blocks they have overwritten. So before it executes anything, it ends the
// associations that have expired: those whose last command arrived almost three keep alive timeouts ago, since hosts
// wait for three. Operations that were already submitted to a store cannot be taken
// back. The time in which one process hands associations over to another counts too.
//
// # The path of a command
//
// A capsule arrives in the shard of its queue. Its opcode selects a row of a table: the handler, and the rule for
// the length of its data. The descriptor is checked against both before anything is allocated or transferred. Data
// from the host is fetched as a whole before the handler runs. A handler either completes the command at once or
// keeps the request and completes it later, exactly once.
//
// A Read of a namespace whose store is a [backend.Leaser] is sent from the store's memory under a shared lease.
// The lease ends when the response has been acknowledged, or a few milliseconds after others have begun to wait
// for it. Leases are not used if the device pins pages ([rdmatransport.Attrs]) and the store frees pages. The data
// of a Write is fetched into a buffer of the shard, or is in the capsule, and is copied under an exclusive lease.
// A command for which there is no buffer, no room in a backend's queue or no lease waits in its shard, in order
// among commands that conflict, and is retried each turn.
//
// While several hosts send I/O commands to a shard, these begin by deficit round robin: 24 of 4 KiB in a turn of
// the shard, or as many bytes. So a host with one command at a time does not wait for all outstanding commands of
// others. Commands that have arrived meanwhile wait in the queues. While only one host sends commands, they begin
// as they arrive.
//
// Each host has a share of a shard's buffers, for all its queues there: it holds no more than it leaves free, and
// hosts that wait are served in turn, by bytes. So are operations for which a store has no room, and the receive
// buffer's room for the data of RDMA READs (deficit round robin). A host that the subsystem does not name shares
// with all hosts of its address. Until a host is admitted (a host with a key is when it has authenticated) and on
// discovery controllers, commands get their buffers from another arena, and room for their data from another
// budget, so that unknown hosts cannot use up the resources of admitted ones. A buffer for a log page only has the
// length of the page; the rest of the length that a host requests is sent from memory that stays zero.
//
// A store that has completed nothing for a second is stalled. It keeps its operations, but gets few more: the
// buffers of its commands no longer count for their hosts, commands that wait for a buffer are removed from the
// queue for buffers, and all but a few new ones wait at the gate until the store completes something. So a host
// goes on with its other namespaces. No shard waits for other answers of a store, such as its size and its health.
// The shutdown of a controller waits for the flush of such a store only if its host has written there; flushes end
// with the association.
//
// When a host disables the Volatile Write Cache, its earlier writes are flushed. Then every write of that
// controller is executed with Force Unit Access, until the host resets the controller or connects again.
//
// Stores are also flushed when a target or a subsystem is closed, and when the last namespace of a store is
// removed. That includes writes through an earlier target that did not flush. A subsystem with a State thus knows,
// when it is served again, whether its stores were flushed and whether the machine has restarted since; hosts can
// read that ([capsule.WriteVerifier]).
//
// Commands of several operations (Compare and Verify of many blocks, Copy) are executed part by part through
// scratch buffers from a separate arena. So no command that holds a buffer waits for another buffer of the same
// arena.
//
// # Fused operations, Abort and reservations
//
// The halves of a fused Compare and Write are paired in the order in which they arrive, and become one atomic
// operation of the store, even with respect to writes in other shards. If one half fails, or is malformed, the
// other one fails with it. AWUN and ACWU promise one block, which holds for every command.
//
// Abort immediately ends a command that waits for a resource of the target. A command whose data is being
// transferred, or that consists of several operations, ends when the transfer or the current operation is over;
// Abort completes afterwards. An operation that was submitted to a store is completed, and the result of Abort is
// that the command was not aborted.
//
// A volume has one reservation, whatever subsystems export it. Every command of an I/O queue checks it, through a
// pointer that is nil while nothing is reserved. Commands that change it leave their shard, since saving the
// change may block; they are executed one at a time. Preempt and Abort first ends the commands of the preempted
// hosts on all shards. Registrations outlive connections. They outlive the target if a host requests that and
// [NamespaceConfig] has a store for them. The record in it names its namespace: the record of another namespace is
// an error. Hosts that may only read a namespace cannot reserve it, nor register.
//
// A reservation identifies hosts by their identifiers, which any host can send. So an identifier belongs to one
// host NQN at a time, in all subsystems: to the NQN that is registered with it, even while the host or the
// namespace is away; otherwise to the NQN that is connected with it; otherwise, for hosts with keys, to the NQN
// that last authenticated with it. Other hosts that use it are refused. A host with a key may use an identifier
// that a host without a key has registered elsewhere; the latter is admitted where it is registered whenever the
// former is away. If the NQN of a host with a key contains a UUID, that is the host's identifier, even before its
// first connection. The NQN of a host without a key is not verified. Each NQN can have only a few registrations of
// a volume, so that no host can use up all of them.
package target
