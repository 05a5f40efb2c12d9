// Package storage has what hosts read and write: volumes, each of which is a store with a
// lane in every shard; and namespaces, by which subsystems export volumes, with a gate in
// every shard.
//
// [Volumes] owns the volumes and the shards that have lanes to them, under its mutex,
// which nothing outside of this package locks. A [Volume] is open once, however many
// namespaces of whatever subsystems export it. Its size and health are read from the
// store outside of the shards, which read them through atomics, and its [Reservations]
// are changed outside of the shards too, one change at a time.
//
// A [Lane] and a [Gate] belong to their shard. An [Operation] enters a namespace through
// the gate, and waits there while it is shut; waits in the lane for a lease of the
// store's memory or for room in the store's queue; and leaves both when it is released.
// Its [Owner] is called at each step: that is the only call upwards.
//
// A [Table] has a subsystem's namespaces at one time, and is immutable. A [View] is a
// controller's: it reads the tables of the subsystem, the listener and the host as they
// are at the time, and takes no lock. The [Identifications] in it are of the namespaces
// that the host has identified.
package storage
