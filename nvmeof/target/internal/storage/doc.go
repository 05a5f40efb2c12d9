// Package storage implements volumes, each of which is a store with a lane in every shard; and namespaces, by
// which subsystems export volumes, with a gate in every shard.
//
// [Volumes] owns the volumes and the shards that have lanes to them, under its mutex, which nothing outside of
// this package locks. A [Volume] is opened once, however many namespaces of whatever subsystems export it. Its
// size and health are read from the store outside of the shards, which read them through atomics. Its
// [Reservations] are also changed outside of the shards, one change at a time.
//
// A [Lane] and a [Gate] belong to their shard. An [Operation] enters a namespace through the gate, and waits there
// while it is shut. It waits in the lane for a lease of the store's memory or for room in the store's queue. It
// leaves both when it is released. Its [Owner] is called at each step; these are the only calls upwards.
//
// A [Table] has a subsystem's namespaces at one time, and is immutable. A [View] belongs to a controller: it reads
// the current tables of the subsystem, the listener and the host, and takes no lock. Its [Identifications] say
// which namespaces the host has identified.
package storage
