// Package target is the target role of NVMe over Fabrics: subsystems with
// namespaces over package backend, the controllers that hosts connect to, and
// the discovery controller that tells them where.
//
// # Who owns what
//
// A [Target] serves on the shards of one device. Each queue belongs to one
// shard, which alone touches it and its requests. A controller's state belongs
// to the shard of its admin queue, except what stands under its mutex: the set
// of its queues, which I/O queues on other shards join and leave, and its error
// log. Subsystems, hosts and listeners are control plane, under the target's
// mutex; the data path reads namespaces from an immutable table behind an
// atomic pointer and takes no lock that can block.
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
// been acknowledged. A Write is fetched into a buffer of the shard, or lies in
// the capsule, and is copied under an exclusive lease. What finds no buffer, no
// room in a backend's queue or no lease waits in its shard, in order among
// commands that conflict, and is tried again each turn.
//
// # Not supported
//
// Metadata and protection information, fused commands, Compare, Verify, Copy,
// reservations, namespace management, firmware download, in-band
// authentication, subsystem reset and lists of SGL descriptors. All namespaces
// are in one ANA group that every port reaches optimally. A host's Disconnect
// command ends the connection of its queue too. Hosts are refused unless they
// are allowed.
package target
