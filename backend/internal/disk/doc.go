// Package disk executes the requests of package backend on one file descriptor. Packages file and block open the
// descriptors.
//
// # Durability
//
// What is true once a request has succeeded:
//
//	Write         readable; in the drive's cache, or the page cache
//	Write, FUA    durable: RWF_DSYNC of pwritev2(2), or a write, then fdatasync(2)
//	Flush         every write that completed before is durable: fdatasync(2)
//	Write Zeroes  reads as zero: FALLOC_FL_ZERO_RANGE, or a hole where requested
//	              or thin; written where neither is there. Durable like a write
//	Deallocate    storage is freed where it can be: FALLOC_FL_PUNCH_HOLE, or
//	              BLKDISCARD; it reads as zero, as before, or, after the latter,
//	              as anything
//
// Without Info.Deallocate no storage is freed: Write Zeroes makes no hole, and Deallocate does nothing.
//
// A block is never seen half written. Info.AtomicUnit says whether a power failure may tear one.
//
// At most one sync per disk runs at a time. It serves every flush that was submitted before it began, on whatever
// queue. The queue continues with other requests meanwhile.
//
// No sync is ever repeated: the kernel forgets what a failed sync did not write, and reports the failure once. Such a
// failure latches the disk ([Disk.Failed]). So does any failed write with RWF_DSYNC: the failure may be that of its
// sync, which then reported earlier writes. Two kinds of durable writes are therefore a write and a separate sync:
// those that may run out of space ([Config.Allocates]), and those through the page cache, where the sync of a write
// could consume the report that is due to a concurrent flush. A program that extends a file syncs it in the same
// sequence ([Disk.Sync]). The removal of a device latches the disk, too.
//
// Once the disk is latched only reads succeed. A write that was already in progress fails with [backend.ErrFailed],
// whatever its outcome. [Disk.Clear], or opening the file again, ends that.
//
// # Order
//
// Two requests are never in the kernel together if one of them writes what the other one accesses, whatever their
// queues. Closing a queue drops what the kernel has not begun and waits for the rest: when Close returns, a write has
// either reached the file or never will.
//
// # Engines
//
// Each queue has its own io_uring. If the kernel does not support io_uring, or has no memory or descriptor left for it,
// the queue uses goroutines that call preadv2(2) and pwritev2(2). io_uring is faster with [Options.LockedThreads].
package disk
