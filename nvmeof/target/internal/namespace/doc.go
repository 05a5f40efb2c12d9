// Package namespace is what shards know of a subsystem's namespaces: each one's volume
// and the gates to it, which of them a host sees and what it may do there.
//
// A [Table] does not change. A [View] is a controller's: it looks through the tables of
// the subsystem, the listener and the host as they are at the time, and takes no lock. A
// [Sight] in it says which of them the host has identified. A [Gate] belongs to its shard;
// which gates there are, and whether those to come are shut, to the mutex of the
// [volume.Set].
package namespace
