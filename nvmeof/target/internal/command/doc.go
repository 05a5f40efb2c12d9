// Package command carries out the commands of I/O queues, from a capsule's arrival to the
// acknowledgement of its response, and has what admin commands share with them: requests,
// their buffers, and their data's way from and to the host.
//
// A [Queue] has the commands of one connection, and belongs to its shard, as do its
// [Request]s. Opcodes are rows of a table ([Tables]); a row judges a command, gets its data,
// and goes on by what the store answers. Nothing here waits but in a list of the shard: for
// a buffer, a lease, room in a store's queue or a gate to open. What may block, which is
// what changes a reservation, goes to the [Client] outside of the shards. Admin and fabrics
// commands are the [Owner]'s.
package command
