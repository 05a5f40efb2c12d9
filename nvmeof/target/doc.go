// Package target is the target role of NVMe over Fabrics: subsystems with namespaces over package
// backend, the controllers that hosts connect to, and the discovery controllers that list them.
//
// [New] makes a [Target] of a device. [Target.AddSubsystem] adds a subsystem,
// [Subsystem.AddNamespace] a namespace, [Target.Listen] a listener, and [Subsystem.AllowHost] a
// host; other hosts are refused. All of it can change while hosts are connected. The packages below
// backend have stores in memory, in files and on block devices; any other [backend.Store] will do.
// Devices and stores belong to the caller, who closes them after [Target.Close]. The examples are
// complete programs.
//
// The sections up to "Not supported" are for callers; the later ones, from "Layers" on, are
// for those who change the package.
//
// # Changes while hosts are connected
//
// Everything except names can be added, changed and removed at any time, by the methods of
// [Target], [Subsystem], [Namespace] and [Listener]. A change applies to commands that begin after
// the call has returned; earlier ones complete as they began. An event notifies only the hosts
// whose view changes.
//
//   - A host is an entry of each subsystem, with a right to each namespace. Those
//     without an entry are not allowed; removing one ends the host's connections.
//   - A store that namespaces of several subsystems export is opened once; each
//     namespace has rights, an ANA group and a pause of its own. The removal of a
//     namespace ends when its last command has completed.
//   - A command reaches no namespace but the one that its host means. Where another
//     identity, or other blocks, come to an NSID the host's commands wait for a short time
//     and then fail with Internal Path Error, which hosts retry, until the host has
//     identified the new namespace (Identify, CNS 00h, and 03h where it uses that) and it is
//     certain that it has processed the response: because it identifies the namespace again,
//     for which the event is repeated, or because a second has passed. On a new connection
//     commands wait, up to 5 s after the last Identify, until the host has identified their
//     namespace; those that came before that are to be retried. A host that identifies
//     nothing by then is assumed to keep what it knows.
//   - A listener that is removed, or on which a subsystem is no longer exposed, ends the
//     connections through it. To let hosts change paths first, set its ANA groups to
//     inaccessible.
//   - A device that is removed ends its listeners. The commands of its connections are
//     waited for.
//   - Locks are taken in the order Subsystem.change, Target.mu, Subsystem.mu, the hosts'
//     own. Shards take the last three, so no call to a shard is waited for under those.
//
// # Do Not Retry
//
// The flag makes hosts give up: Linux since 6.10 removes a controller whose Connect fails with it
// while it reconnects, and does not retry a request that fails with it on another path. It is set
// if the same command would always get the same status:
//
//   - what no host may send: malformed fields, an opcode, feature, log page or property that
//     does not exist, a wrong order of commands, ranges beyond the end;
//   - what an administrator has decided: no such subsystem, host or namespace, not on this
//     listener, read-only. While a [Target.Change] is under way, and while the target is
//     behind others ([Gateway.SetBehind]), a Connect fails with Controller Busy instead;
//   - what another host has decided: a reservation conflict, write protection; and a full
//     store, which file systems have to report.
//
// It is not set if waiting helps: no controller identifier is free, the host has as many
// controllers as one may have, or is not ready ([HostConfig.Unready]), an earlier controller or
// queue of the host has not ended yet, another host uses the host identifier for now, too many
// hosts authenticate at a time, a store fails, an ANA state, a namespace that is away or was
// replaced. A rejection of a connection request has no such flag.
//
// A namespace whose store is missing for now ([Subsystem.AwaitNamespace],
// [Subsystem.SuspendNamespace]) is away: listed, with its identifiers, without a size,
// not ready, in an ANA group of its own that is inaccessible through every listener.
//
// # Several targets
//
// With [Config.Gateway] the target is one of several that serve the same subsystems over shared
// storage. One of them at a time serves an ANA group. The caller decides which, and tells the
// target by [Gateway.Serve], [Gateway.Drain], [Gateway.Stop] and [Gateway.Fence]. The state of a
// group through a listener is the worse of the listener's own and of what the Gateway may do with
// it, in the same table, so that commands are not checked twice. A namespace whose store is open at
// another target ([NamespaceConfig].Known) is away, but in its own group and with its size. When it
// is served here it is the same to hosts, which need not identify it again. If a store fails a
// command of a group that is no longer served, the status is ANA Inaccessible, since the present
// owner of the group has fenced this target.
//
// Reservations move with the group if a [ReservationKeeper] keeps them: each change is kept, with
// its notices, before its command completes, and loaded before the namespace is served. If a keeper
// returns [ErrNotOwner], the target stops serving the namespace (ANA Inaccessible). Without a
// keeper hosts cannot reserve.
//
// # Several devices
//
// A device is an RNIC, or the one address that a softroce device has. Devices are added
// and removed while the target runs ([Target.AddDevice], [Device.Remove]); each has
// shards, a protection domain and listeners of its own, and all else is the target's:
// hosts find the same subsystems through each, with the same namespaces and reservations,
// and with controller identifiers that are unique in the subsystem. ANA states are a
// listener's. A controller is on the listener through which its admin queue was
// connected, with all its queues.
//
// A volume has a lane, and a namespace a gate, for each shard, found by the shard's index
// among those of all devices. They exist before the shard has its first queue, and remain
// for the next shard of that index.
//
// The receives of I/O queues, with the capsule buffers, are each queue's own, or with
// [Config.SharedReceives] those of its shard. A queue then uses at most as many at a time
// as it has entries; if a host sends more the queue ends, so that it uses no more of the
// shared receives than its queues allow.
//
// # What survives the target
//
// With [SubsystemConfig.State] the counters of the SMART page, the number of errors and
// write protection that hosts set continue where they were. The record is saved when
// protection changes, before the command completes, when the target starts and ends, and
// at most once a minute while hosts send commands: a crash loses that minute, and counts
// as an unsafe shutdown. Without State they last as long as the target, also for a
// namespace that is removed and added again. So does protection until the next power cycle,
// which is the end of the target.
//
// # Authentication
//
// A host that has a key in its [HostConfig] authenticates on each queue, by the exchange of package
// auth, before any other command is executed there. The queue's shard owns the exchange and refuses
// malformed messages itself. It lends the exchange to the target's authenticator for each message
// that needs an exponentiation, which may take tens of milliseconds. That has a goroutine for every
// fourth processor, and serves addresses in turn: first those from which hosts have authenticated,
// last those from which hosts have failed, or left in the middle, within the last minute. The last
// get half of the time at most, and all get every fourth turn at least. A queue that fails ends,
// and the whole association with it, except an I/O queue that never was authenticated: its other
// end may not be the host. The host may authenticate again at any time, which is when a changed key
// is used.
//
// Discovery controllers do not require authentication, as those of Linux do not, whatever
// key a host has: NVMe base 2.0 leaves it to the controller (8.13). It would protect only
// the host's log. Anyone who knows a host's NQN can read which subsystems allow that
// host, and where they are, but cannot connect to them, since each requires
// authentication on every queue, and the log says so (TREQ). A response to a challenge is
// bound to the NQN of the subsystem, and that of the discovery service is the same at
// every target unless one of its own is configured ([Config.DiscoveryNQN]), so that one
// target could have a host answer the challenge of another. It would be useful only with
// such an NQN, and with hosts and keys of the discovery subsystem in the configuration.
//
// # Not supported
//
// Metadata and protection information, namespace management, firmware download,
// authentication of discovery controllers and subsystem reset. Write Uncorrectable: it
// needs a map of bad blocks that survives restarts, and a lookup in it for every read and
// write, for a command that only tests send. A host's Disconnect command ends the
// connection of its queue too. Hosts are refused unless they are allowed.
//
// # Layers
//
// Calls go down, from one of these layers to those below it:
//
//	administration  Target, Device, Listener, Subsystem, Namespace, the discovery log:
//	                what an administrator configures, and who is connected
//	session         what shards own: queues and controllers, and the commands that they
//	                execute, of fabrics, admin and I/O queues
//	storage         internal/storage: volumes with the lanes of shards to them, namespaces
//	                with their gates, reservations, and what of them a host sees
//	values          the rest of internal, which uses none of the others
//
// The first two are this package. A file belongs to one of them: queue.go, request.go,
// controller.go, dispatch.go, io.go and what these call are the session. The calls
// upwards are few. The session calls the administration when a host connects (whether it
// is allowed, with which rights, and as which controller), when it disconnects, and for
// what concerns other hosts too: events, reservations, and what is saved. The storage
// calls the [storage.Owner] of an operation, Shard.Stalled where a store hangs, and
// nothing else.
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
// # Who owns what
//
// A [Target] serves on the shards of one or more devices. Each queue belongs to one
// shard, and only that shard uses it and its requests. A controller's state belongs to
// the shard of its admin queue, except what is under its mutex: the set of its queues,
// which I/O queues on other shards join and leave, and its error log. Subsystems, hosts
// and listeners are the administration's, under the target's mutex; the data path reads
// namespaces, rights and ANA states from immutable tables behind atomic pointers and
// takes no lock that can block.
//
// # Four examples
//
// A Read of a namespace in memory. The connection passes the capsule to its queue
// (queue.Command), which checks what is common to all commands (queue.begin) and looks
// the opcode up (queue.startIO). startRead finds the namespace through the controller's
// view, which is the host's rights, the listener's ANA states and the subsystem's table
// (View.Reach, Identifications.Knows); enters it, which is the gate, the reservation and the lane
// in one call (Namespace.Enter); checks the range (Volume.InRange); and takes the lease
// (Lane.Lease). The response is sent from the store's own memory. When the host has
// acknowledged it (queue.Done) the request releases lease, lane and gate
// (Operation.Release). Where others wait for the lease before that (Lane.urge,
// request.Wanted) the data is copied into a buffer, from which it is sent on. All of it is
// one chain of calls in the queue's shard.
//
// A Write whose data has to be fetched. As above up to the range, with the host's right
// to write (View.MayWrite). The request takes a buffer of the shard, or waits for one,
// and has the connection fetch into it; queue.Fetched continues. If the store has
// memory that can be leased the data is copied under an exclusive lease, and the command completes.
// Otherwise the operation is put into the lane (Lane.Put), which submits it to the store
// at the end of the turn and polls for its completion (Lane.Poll). Owner.Completed then
// completes the command.
//
// Reservation Acquire. startReservation enters the namespace as above and fetches the
// keys; since the change may be saved, which blocks, the request is held and leaves its
// shard (request.outside). Controller.reserve makes the change (Reservations.Apply, where
// package reservation computes the next state), and the administration adds notices to
// the controllers of all subsystems that export the volume and ends the commands of
// preempted hosts on all shards. Then the command completes in its shard.
//
// An administrator adds a namespace. [Subsystem.AddNamespace] checks the configuration,
// and gets the volume of the store (Volumes.Acquire): the first namespace opens it, with
// a lane in each shard, and each namespace gets a gate for each lane. The namespace is
// given its generation and its saved counters, and is entered into a new table, which
// shards read from then on. Every controller whose host sees it raises the event, in its
// own shard.
//
// # Connections whose host is not known
//
// The host of a connection is unknown until its Connect command, and the authentication that may
// have to follow. There is room for [Config.MaxSilent] such connections, half of that for an
// address, and a quarter of [Config.QueueMemory]. When none is left, a new connection takes the
// place of the oldest of the address with the most, so that a host that continues without delay
// gets connected while others send thousands of requests. Addresses that have, or within the last
// hour had, a connection of an allowed host have room of their own, and more of it: a host opens
// all of its I/O queues before it sends the first Connect command. Discovery, which is open to all,
// does not count for that. An IPv6 address is known by itself; strangers share the room of their
// network of 64 bits. If an address requests more than its places within a second, the rest is
// refused before anything is mapped for it.
//
// # Queue memory
//
// A queue keeps the memory that it maps ([Config.QueueMemory]) as long as its host is connected. An
// address may use no more than it leaves free, above the last eighth. That eighth is for addresses
// whose hosts are or recently were connected, a thirty-second of all memory for each, so that they
// can reconnect whatever others use. The memory of a host that has authenticated counts for the
// host, from whatever address it comes. That of strangers counts separately for their address (for
// IPv6 their network) until their hosts are known.
//
// # Controllers of one host
//
// A host, which is an NQN and a host identifier, has at most [Config.MaxHostControllers] of a
// subsystem's controllers; in the discovery service, where names are not verified, the limit is for
// an address. An address has at most half of all controllers, not counting those of hosts that have
// authenticated, and the last sixteenth of the identifiers is for hosts and addresses without a
// controller. A host at its limit replaces its own controller that has been silent for longest, if
// that is half a minute or more; otherwise it gets Controller Busy. Until a host with a key has
// authenticated, its controllers count only for its address, and the oldest of them yields, so that
// nobody can occupy the host's places by knowing its names.
//
// A controller without keep alive stays while its host's transport acknowledges an RDMA WRITE of no
// bytes, which the target sends after every two seconds without a command.
//
// A target that was held up, by a signal or its machine, may have commands that hosts have since
// repeated on other paths, and whose blocks they have overwritten. Before it executes anything, it
// ends the associations whose time is over: their keep alive timeout with its grace, and one more,
// which is within the three that hosts wait. Operations that a store already has cannot be taken
// back. The time in which one process hands associations to another counts too.
//
// # The path of a command
//
// A capsule arrives in the shard of its queue. Its opcode selects a row of a table: the
// handler, and the rule for the length of its data. The descriptor is checked against
// both before anything is allocated or transferred. Data of the host is fetched as a
// whole before the handler runs; a handler either completes the command at once or keeps
// the request and completes it later, once.
//
// A Read of a namespace whose store is a [backend.Leaser] is sent from the store's memory
// under a shared lease, which ends when the response has been acknowledged, or a few
// milliseconds after others have begun to wait for it; not where the device pins pages ([rdmatransport.Attrs]) and the store frees pages. The data of a
// Write is fetched into a buffer of the shard, or is in the capsule, and is copied under
// an exclusive lease. A command for which there is no buffer, no room in a backend's
// queue or no lease waits in its shard, in order among commands that conflict, and is
// tried again each turn.
//
// While several hosts send I/O commands to a shard these begin in turns (deficit round
// robin), 24 of 4 KiB in a turn of the shard or as many bytes, so that a host with one
// command at a time does not wait for all that others have outstanding. What else has arrived
// waits in the queues. While one host sends commands they begin as they arrive.
//
// Each host has a share of a shard's buffers, with all its queues there: it holds no more
// than it leaves free, and those that wait are served host by host, by bytes; so are
// operations for which a store has no room, and the receive buffer's room for the data of
// RDMA READs (deficit round robin). A host that
// the subsystem does not name shares with all of its address. Until a host is admitted,
// which one with a key is when it has authenticated,
// and on discovery controllers, commands get their buffers from another arena, and room for
// their data from a budget of strangers, so that
// nobody who was not let in can keep hosts from theirs. Of a log page the buffer has what
// there is of it; the rest of what a host requests is sent from memory that stays zero.
//
// A store that completes nothing for a second keeps what it has, and no more: the buffers of
// its commands do not count for their hosts any longer, those that wait for one leave the
// line, and all but a few new ones wait at the gate until the store completes something. So
// a host goes on with its other namespaces. What is asked of a store besides, its size and
// its health, no shard waits for. The shutdown of a controller waits for the flush of such a
// store only where its host has written there; flushes end with the association.
//
// When a host disables the Volatile Write Cache what was written is flushed, and then
// every write of that controller is executed as one with Force Unit Access, until the
// host resets the controller, or connects again.
//
// Stores are also flushed when a target or a subsystem is closed, and with the last namespace of a
// store; that includes writes through an earlier target that did not flush. A subsystem with a
// State knows by it, when it is served again, whether they were flushed and whether the machine has
// restarted since; hosts can read that ([capsule.WriteVerifier]).
//
// Commands of several operations (Compare and Verify of many blocks, Copy) are executed
// part by part through scratch buffers of an arena of their own, so that no command that
// holds a buffer waits for another one of the same arena.
//
// # Fused operations, Abort and reservations
//
// The halves of a fused Compare and Write are paired in the order in which they arrive,
// and become one operation of the store, which no other write separates, on whatever
// shard. Where one half fails, or is malformed, the other one fails with it. AWUN and
// ACWU promise one block, which is what holds for every command.
//
// Abort ends at once a command that waits for a resource of ours, and one whose data is
// transferred, or that is between two operations, as soon as that is over; Abort
// completes afterwards. An operation that a store has is completed, and the result of
// Abort is that the command was not aborted.
//
// A volume has one reservation, whatever subsystems export it. Every command of an I/O
// queue checks it, through a pointer that is nil while nothing is reserved. Commands that
// change it leave their shard, since a change may have to be saved, one at a time.
// Preempt and Abort also ends the commands of the preempted hosts on all shards first.
// Registrations outlive connections; they outlive the target if a host requests that and
// [NamespaceConfig] names a store for them, whose record says which namespace it is of: that of
// another one is an error. Hosts that may only read a namespace cannot
// reserve it, nor register.
//
// A reservation identifies hosts by their identifiers, which any host can send. So an identifier
// belongs to one host NQN at a time, in all subsystems: to the one that is registered with it, even
// while the host or the namespace is away; otherwise to the one that is connected with it;
// otherwise, with a key, to the one that last authenticated with it. Other hosts that use it are
// refused. A host with a key may use an identifier that a host without a key has registered
// elsewhere; the latter is admitted where it is registered whenever the former is away. The UUID in
// the NQN of a host with a key is that host's identifier, even before its first connection. The NQN
// of a host without a key is not verified. Each NQN can have only a few registrations of a volume,
// so that no host can occupy all places.
package target
