// Package storage is what hosts read and write: volumes, each of which is a store, with a
// lane to it from every shard; and namespaces, by which subsystems export volumes, with a
// gate to each from every shard.
//
// [Volumes] owns the volumes and the shards that they have lanes on, under its mutex, which
// nobody takes outside of this package. A [Volume] is open once, however many namespaces of
// whatever subsystems have it. Its size and health are found out by whoever asks the store,
// outside of the shards, which read them through atomics, and its [Reservations] are changed
// outside of them too, one change at a time.
//
// A [Lane] and a [Gate] belong to their shard. An [Operation] enters a namespace through the
// gate, at which it waits while that is shut; waits in the lane for a lease of the store's
// memory or for room in the store's queue; and leaves both when it is released. Its [Owner]
// hears of each step: that is the one way back up.
//
// A [Table] has a subsystem's namespaces at one time, and does not change. A [View] is a
// controller's: it looks through the tables of the subsystem, the listener and the host as
// they are at the time, and takes no lock. The [Sight] in it says which of them the host has
// identified.
package storage
