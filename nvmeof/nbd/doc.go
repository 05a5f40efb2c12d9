// Package nbd exports disks with an NBD server on a Unix socket, for fio's nbd engine, qemu, nbd-client and other
// clients.
//
// A [Server] has one event loop, a goroutine on its own thread, that does everything. It accepts clients, negotiates
// (package internal/wire), takes as many requests as one read from the socket returns, and submits them to the store in
// one batch. It replies with one write to all operations that the store has completed, out of order, from the memory
// that the store has read into.
//
// If the queue of a store is a [backend.Watchable], as a namespace's is, the loop also runs the I/O queue while it
// polls: then a request involves no other goroutine. A loop without work polls for a while, and yields the processor
// after each turn that found nothing, since the client may be waiting for it. Then it sleeps in a single epoll wait for
// sockets and queues. Another goroutine checks every second whether the socket's file exists, and creates the socket
// again if the file was removed.
//
// # Requests
//
// Supported are READ, WRITE, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS and DISC, with FUA, DF, NO_HOLE, FAST_ZERO and
// REQ_ONE, and structured replies, each of one chunk. If a client has asked for the block sizes, requests that violate
// them get EINVAL. For other clients, a change of a part of a block is a read, modify and write, during which no other
// write to the disk is executed. Requests transfer at most 32 MiB. A failed operation returns an errno: EIO if no other
// applies.
//
// A change that was acknowledged to a client is not undone by a client that has gone. While the store has changes of
// clients that have gone, other clients' changes to the disk wait; this can take as long as a path is lost on which
// these changes may have been sent. Reads do not wait, and may return the data before or after such a change. Requests
// of a client that has gone are dropped if the store has not begun them.
//
// # Limits
//
// A client can have 256 requests in flight and 33 MiB of memory, of which only what it uses is allocated by the system.
// Requests that exceed this wait in the client's socket.
//
// There can be 32 clients. A quarter of the places, at least one for each disk, is reserved for disks without clients.
// When all places are taken, the client that has been in the handshake the longest makes room for the next one. Clients
// that have gone while a disk hangs with their requests occupy no places; but a disk with eight of them accepts no new
// clients. A client that does not complete the handshake within 10 s, or sends invalid messages, is disconnected when
// its earlier requests have ended; other clients are not affected. [Server.Stats] counts each reason.
//
// # Not supported
//
// TLS, TCP, extended headers, and RESIZE, which is experimental in the protocol, are not supported. As with nbdkit and
// qemu-nbd, clients that connect after a store has changed its size get the new size, from its Info; connected clients
// are not told. They may use all of a disk that has grown, once they know by other means (Linux sets another size of a
// connected device with its netlink command NBD_CMD_RECONFIGURE). On a disk that has shrunk, writes beyond the new end
// get ENOSPC, and other requests EINVAL.
//
// Holes are not reported: in the context base:allocation, BLOCK_STATUS returns that all blocks are allocated, as nbdkit
// does if it cannot tell. A client does not read a hole, so that a wrong answer would lose data, and a host has no
// reliable information. Get LBA Status is optional, and neither Linux's target nor ours supports it. NUSE is how much
// storage is in use, not where, and even 0 does not prove that there is no data, since file systems with delayed
// allocation count written data only after a while. Clients must read everything, and detect zeroes themselves.
//
// A disk that no longer exists returns EIO until [Server.Publish] is called without it, and accepts no new clients. One
// loop serves all disks.
package nbd
