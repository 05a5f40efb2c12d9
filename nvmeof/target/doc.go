// Package target is the target role of NVMe over Fabrics: subsystems with
// namespaces over package backend, the controllers that hosts connect to, and
// the discovery controller that tells them where.
//
// # The rooms, and which way they call
//
// Calls go down, from one of these to those below it:
//
//	administration  Target, Device, Listener, Subsystem, Namespace, the discovery log:
//	                what an administrator configures, and who is connected
//	session         what shards own: queues and controllers, and the commands that they
//	                execute, of fabrics, admin and I/O queues
//	storage         internal/storage: volumes with the lanes of shards to them, namespaces
//	                with their gates, reservations, and what of them a host sees
//	values          the rest of internal, which knows nothing of the others
//
// The first two are this package. A file belongs to one of them: queue.go, request.go,
// controller.go, dispatch.go, io.go and what these lead to are the session. The way back up
// is narrow. The session asks the administration when a host connects (may it, with which
// rights, as which controller), when it leaves, and for what concerns other hosts too:
// events, reservations, and what is to survive the target. The storage calls its
// [storage.Owner], which is whoever has an operation under way, and nobody else.
//
// The rest is
//
//   - access: which hosts may connect, and what each sees
//   - ana: the states of a listener's groups, and their log page
//   - discoverylog: the records of the discovery log, and its page
//   - health: how stores are, critical warnings, the SMART page
//   - kept, sealed: files for what has to survive a power failure, and its form
//   - life: what a subsystem counts over its life, as it is written down
//   - peerlog: the log, with limits for lines that peers can cause
//   - reservation: what commands make of a reservation
//   - state: those parts of a controller that are values
//
// # Who owns what
//
// A [Target] serves on the shards of one or more devices. Each queue belongs to one
// shard, which alone touches it and its requests. A controller's state belongs
// to the shard of its admin queue, except what stands under its mutex: the set
// of its queues, which I/O queues on other shards join and leave, and its error
// log. Subsystems, hosts and listeners are the administration's, under the target's
// mutex; the data path reads namespaces, rights and ANA states from immutable
// tables behind atomic pointers and takes no lock that can block.
//
// # Four walks
//
// A Read of a namespace in memory. The connection hands the capsule to its queue
// (queue.Command), which judges what is common to all commands (queue.begin) and looks the
// opcode up (queue.startIO). startRead finds the namespace through the controller's view,
// which is the host's rights, the listener's ANA states and the subsystem's table
// (View.Reach, Sight.Knows); enters it, which is the gate, the reservation and the lane in
// one call (Namespace.Enter); judges the range (Volume.InRange); and takes the lease
// (Lane.Lease). The response goes out from the store's own memory. When the host has
// acknowledged it (queue.Done) the request gives back lease, lane and gate
// (Operation.Release). All of it is one chain of calls in the queue's shard.
//
// A Write that comes with data to be fetched. As above up to the range, with the host's right
// to write (View.MayWrite). The request takes a buffer of the shard, or waits for one, and
// has the connection fetch into it; queue.Fetched goes on. Where the store can be viewed, the
// data is copied under an exclusive lease, and answered. Else the operation goes into the
// lane (Lane.Put), the lane hands it to the store at the end of the turn and polls it
// (Lane.Poll), and the store's answer comes back by Owner.Completed, which answers the host.
//
// Reservation Acquire. startReservation enters the namespace as above and has the keys;
// since the change may be saved, which blocks, the request is held and leaves its shard
// (request.outside). Controller.reserve makes the change (Reservations.Apply, where package
// reservation computes the next state), and the administration gives notices to the
// controllers of all subsystems that export the volume and ends the commands of preempted
// hosts on all shards. Then the request is back in its shard, and answers.
//
// An administrator adds a namespace. [Subsystem.AddNamespace] judges it, and has the volume
// of its store (Volumes.Acquire): the first opens it, with a lane in each shard, and each
// namespace gets a gate to each lane. It is given its generation and what was known of it,
// enters a new table, which shards find from then on, and every controller whose host sees it
// is told in its own shard, where it raises the event.
//
// # Changes while hosts are connected
//
// Everything but the names can be added, changed and removed at any time, by the
// methods of [Target], [Subsystem], [Namespace] and [Listener]. Commands that
// begin after such a call has returned go by the change; those before it finish as
// they began. Hosts whose view changes are told by an event, and no others.
//
//   - A host is an entry of each subsystem, with a right to each namespace. Those
//     without an entry are refused; taking one out ends the host's connections.
//   - A store that namespaces of several subsystems export is opened once; each
//     namespace has rights, an ANA group and a pause of its own. A namespace that
//     is removed goes when its last command is done.
//   - What a host means for one namespace reaches no other. Where another identity, or
//     other blocks, come to an NSID its host's commands wait for a short time and then end
//     with Internal Path Error, which hosts repeat, until its controller has asked what is
//     there (Identify, CNS 00h, and 03h where it uses that) and shows that it has understood:
//     by asking again, for which it is told of the change once more, or by a second that
//     passes. On a new connection commands wait, up to 5 s after the last Identify, until
//     the host has asked about their namespace; those that came before it did are to be
//     sent again. A host that asks about nothing by then is believed to know.
//   - A listener that is removed, or on which a subsystem is no longer exposed,
//     takes the connections through it along. To let hosts leave first, set its ANA
//     groups to inaccessible.
//   - A device that is removed takes its listeners along. What its connections have
//     under way is waited for.
//   - Locks are taken in the order Subsystem.change, Target.mu, Subsystem.mu, the hosts'
//     own. Shards take the last three, so nobody waits for a shard under those.
//
// # Do Not Retry
//
// The flag ends what a host may have waited for: Linux since 6.10 removes a controller
// whose Connect is refused so while it reconnects, and a request that fails so is tried on
// no other path. It is set where the same command gets the same answer whatever becomes
// of the target:
//
//   - what no host may send: malformed fields, an opcode, feature, log page or property that
//     there is not, a wrong order of commands, ranges beyond the end;
//   - what an administrator has decided: no such subsystem, host or namespace, not on this
//     listener, read-only. While a [Target.Change] is under way a Connect gets Controller
//     Busy instead;
//   - what another host has decided and is to be told: a reservation conflict, write
//     protection; and a full store, which file systems are to hear of.
//
// It is not set where waiting helps: no controller identifier is free, the controller or the
// queue of before has not ended or has ended just now, the host identifier is somebody
// else's for now, too many ask at a time, a store fails, an ANA state, a namespace that is
// away or was replaced. A connection request is never refused for good: its rejection has no
// such flag.
//
// A namespace whose store is not there for now ([Subsystem.AwaitNamespace],
// [Subsystem.SuspendNamespace]) is away: listed, with its identifiers, without a size, not
// ready, in an ANA group of the target's own that is inaccessible everywhere.
//
// # Several devices
//
// A device is an RNIC, or the one address that a softroce device has. Devices come and
// go while the target lives ([Target.AddDevice], [Device.Remove]); each has shards, a
// protection domain and listeners of its own, and all else is the target's: hosts find
// the same subsystems through each, with the same namespaces and reservations, and with
// controller identifiers that are unique in the subsystem. ANA states are a listener's. A
// controller is on the listener that its admin queue came through, with all its queues.
//
// A volume has a lane, and a namespace a gate, for each shard, found by the shard's index
// among those of all devices. They are there before the shard has its first queue and
// stay when it has gone, for the next one of that index.
//
// The receives of I/O queues, with the capsule buffers, are each queue's own, or
// with [Config.SharedReceives] those of its shard. A queue then holds as many at a
// time as it has entries; a host that wants more loses the queue, so that it takes no
// more from the others than its queues allow.
//
// # The path of a command
//
// A capsule arrives in the shard of its queue. Its opcode selects a row of a
// table: the handler, and the rule for the length of its data. The descriptor
// is judged against both before anything is allocated or moved. Data of the
// host is then fetched whole before the handler runs; a handler either answers
// at once or keeps the request and answers later, once.
//
// A Read of a namespace whose store is a [backend.Viewer] is sent straight from
// the store's memory under a shared lease, which ends when the response has
// been acknowledged; not where the device pins pages ([rdmatransport.Attrs]) and
// the store gives freed ones back. A Write is fetched into a buffer of the shard,
// or lies in the capsule, and is copied under an exclusive lease. What finds no
// buffer, no room in a backend's queue or no lease waits in its shard, in order
// among commands that conflict, and is tried again each turn.
//
// A host that sets Volatile Write Cache to off has what was written flushed, and then
// every write of that controller carried out as one with force unit access, until it
// resets the controller, or connects again.
//
// Commands of several operations (Compare and Verify of many blocks, Copy) go part
// by part through scratch buffers of an arena of their own, so that nobody who
// holds a buffer waits for another one of the same arena.
//
// # Fused operations, Abort and reservations
//
// The halves of a fused Compare and Write are paired in the order in which they
// arrive, and become one operation of the store, which no other writer comes
// between, on whatever shard. Where one half fails, or is malformed, the other one
// fails with it. AWUN and ACWU promise one block, which is what holds for every
// command.
//
// Abort ends what waits for something of ours, at once, and what waits for its data
// or is between two operations, as soon as that is over; it is answered afterwards.
// What a store has been given is carried out, and the result says that it was not
// aborted.
//
// A volume has one reservation, whatever subsystems export it. Every command of an
// I/O queue looks at it, through a pointer that is nil while nothing is reserved.
// Commands that change it leave their shard, since a change may have to be saved,
// one at a time. Preempt and Abort also ends the commands of the preempted hosts on
// all shards first. Registrations outlive connections; they outlive the target
// where a host asks for that and [NamespaceConfig] names a place. Hosts that may only
// read a namespace cannot reserve it, nor register.
//
// A reservation knows hosts by their identifiers, which anybody can send. So one
// belongs to one host NQN at a time, in all subsystems: to who is registered with it, or
// else is connected with it, or, with a key, proved who it is and used it last. Others
// are refused. Hosts without a key are who they say they are.
//
// # What survives the target
//
// With [SubsystemConfig.State] the counters of the SMART page, the number of errors and
// write protection that hosts set go on where they were. The record is written when
// protection changes, before the host has its answer, when the target starts and ends, and
// once a minute at most while hosts work: a crash loses that minute, and counts as an
// unsafe shutdown. Without it they last as long as the target, also for a namespace that
// goes and comes back.
//
// # Authentication
//
// A host that has a key in its [HostConfig] proves that it knows it on each queue,
// by the exchange of package auth, before any other command is executed there. The
// queue's shard keeps the exchange and lends it to the target's authenticator, a
// goroutine, for each message, since that may compute for tens of milliseconds. A
// queue that fails ends, and the whole association with it, except where it is an
// I/O queue that never was proven: whoever opened that may be somebody else. The
// host may authenticate again at any time, which is when a changed key counts.
//
// Discovery controllers do not ask for it, as those of Linux do not, whatever key a host
// has: NVMe base 2.0 leaves it to the controller (8.13). What a host could prove there is
// whose log it reads. Everybody who knows a host's NQN can read which subsystems allow
// that host, and where they are; it opens none of them, since each asks for the proof
// itself, on every queue, and the log says so (TREQ). A proof is bound to the name of the
// subsystem, and the name of the discovery service is the same at every target unless it
// has one of its own ([Config.DiscoveryNQN]), so that one of them could let a host answer
// what another asks. It would be worth having with such a name alone, with hosts and keys
// of the discovery subsystem's own in the configuration.
//
// # Not supported
//
// Metadata and protection information, namespace management, firmware download,
// authentication of discovery controllers and subsystem reset. Write Uncorrectable:
// to be true it needs a map of bad blocks that survives restarts, and a look into
// it with every read and write, for a command that only tests send. A host's
// Disconnect command ends the connection of its queue too. Buffers go to who asks first,
// not to hosts in turn. Hosts are refused unless they are allowed.
package target
