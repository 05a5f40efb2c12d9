// Package disk moves the requests of package backend to and from one file
// descriptor, whatever is behind it. Packages file and block open descriptors
// for it.
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
// Without Info.Deallocate storage is kept: Write Zeroes makes no hole, and Deallocate
// does nothing.
//
// A block is never seen half written. Whether a power failure may tear one is in
// Info.AtomicUnit.
//
// At most one sync runs at a time for a disk, and one serves every flush that was
// submitted before it began, on whatever queue. It runs beside the queue, which
// goes on with everything else.
//
// No sync is ever repeated: the kernel forgets what a failed one did not write, and
// reports it once. Such a failure latches the disk ([Disk.Failed]), as does a write
// with RWF_DSYNC that fails, with whatever error: it may be that of its sync, which
// then told of earlier writes. Where a write may find no space ([Config.Allocates])
// it and its sync are therefore two calls; and so they are through the page cache, where the
// sync of a write could take along what a flush beside it, which succeeds, should have been told.
// What makes a file longer syncs it in its turn ([Disk.Sync]). A device that is gone latches the disk,
// too. From then on nothing is acknowledged but reads:
// also a write that was under way then ends with [backend.ErrFailed], whatever
// became of it. [Disk.Clear], or opening it again, takes that back.
//
// # Order
//
// Two requests of which one writes what the other touches are never in the
// kernel together, whatever their queues. Closing a queue drops what the kernel
// has not begun and waits for the rest: a write that its owner gave up on has
// landed by then, or never will.
//
// # Engines
//
// Each queue has its own io_uring, or, where the kernel has none or no memory or
// descriptor is left for it, goroutines that call preadv2(2) and pwritev2(2). With [Options.LockedThreads] the former
// is faster.
package disk
