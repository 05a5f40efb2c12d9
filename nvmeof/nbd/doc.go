// Package nbd publishes disks as exports of an NBD server on a unix socket, for
// fio's nbd engine, qemu, nbd-client and whatever else speaks it.
//
// A [Server] has one loop, a goroutine on a thread of its own, that does everything:
// it accepts, negotiates (package internal/wire), takes as many requests as a read of the
// socket gives, submits them to the store in one batch, and answers in one write
// what the store has finished, out of order, from the memory that the store read
// into. Of a store whose queue is a [backend.Watchable], as a namespace's is, it
// drives the I/O queue too while it polls: a request meets no other goroutine. A
// loop without work polls for a while, and lets others have the processor after each
// turn that found nothing, since the client may be waiting for it; then it sleeps in one epoll
// on sockets and queues. Another goroutine looks each second whether the socket's file is there, and
// makes the socket again where somebody removed it.
//
// # Requests
//
// READ, WRITE, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS and DISC, with FUA, DF, NO_HOLE,
// FAST_ZERO and REQ_ONE; structured replies, of one chunk each. A client that asked for the
// block sizes gets EINVAL for what does not keep to them. For others a part of a
// block is read, changed and written, while no other write to the disk goes on.
// Requests move 32 MiB at most. What comes of a command that failed is an errno,
// EIO for whatever has none of its own.
//
// What a client has changed, and was told so, is not undone by a client that has gone: while the
// store has changes of those, as it does for as long as a path is lost that they may have gone
// over, changes of others to the disk wait. Reads do not, and find what was there before or
// after. What such a client had asked for and the store had not begun is not done.
//
// # Bounds
//
// A client has 256 requests in flight and 33 MiB of memory, of which it costs what
// it uses; what exceeds them waits in its socket. There are 32 clients, of which a quarter, and
// at least one for each disk, is for disks that have none; where there are as many, the one
// that is longest in the handshake makes room for the next. Those that have gone
// while a disk hangs with their requests take no places of others; of eight such a disk takes
// no new client. One that does not finish the handshake in 10 s, or sends what cannot be
// understood, is disconnected once what it asked for before is done; others do not notice.
// [Server.Stats] counts each reason.
//
// # Not here
//
// TLS, TCP, extended headers, and RESIZE, which is an experiment of the protocol: as with
// nbdkit and qemu-nbd, clients that come after a store has changed its size are told the
// new one, by what Info of it says then, and nobody tells those that are there. Of a disk
// that grew they may use all, once they know by other means (Linux takes another size for a
// connected device by its netlink command NBD_CMD_RECONFIGURE); of one that shrank they get
// ENOSPC for writes beyond the new end and EINVAL for anything else.
//
// Holes: BLOCK_STATUS says in the context base:allocation, as nbdkit does of what cannot
// tell, that all is allocated. A client that is told of a hole does not read it, so that a wrong answer
// loses data, and a host has no way to be sure: Get LBA Status is optional, and neither
// Linux's target nor ours has it; NUSE is how much storage is in use, not where, and even 0
// does not prove that there is nothing, since file systems that allocate late count what was
// written only after a while. Clients read everything, and find zeroes themselves.
//
// A disk that is there no more answers EIO until [Server.Publish] is called without it, and
// takes no new clients. One loop serves all disks.
package nbd
