// Package volume has the stores that a target exports: each is open once, however many
// namespaces of whatever subsystems have it, with a way to it from every shard.
//
// A [Set] owns the volumes and the shards that they have lanes on, under its mutex, which
// is held while volumes are opened and closed. A [Lane] belongs to its shard: operations
// enter it, wait in it for a lease of the store's memory or for room in the store's queue,
// and leave it. A volume's size and health are found out by whoever asks the store, outside
// of the shards, which read them through atomics. Who has a volume is a [Holder], and hears
// of changes.
package volume
