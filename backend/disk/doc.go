// Package disk moves the requests of package backend to and from one file
// descriptor, whatever is behind it. Packages file and block open descriptors
// for it.
//
// # Durability
//
// A completed write is in the page cache or the drive's cache; with force unit
// access it is durable (RWF_DSYNC). Flush is fdatasync(2), which covers every
// write that completed before: at most one runs at a time for a disk, and one
// serves every flush that was submitted before it began, on whatever queue. It
// runs beside the queue, which goes on with everything else.
//
// No sync is ever repeated: the kernel forgets what a failed one did not write.
// Such a failure latches the disk ([Disk.Failed]), as does a write with force
// unit access that fails with an I/O error, which may have failed in its sync,
// and a device that is gone. From then on nothing is acknowledged but reads:
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
// Each queue has its own io_uring, or, where the kernel has none, goroutines
// that call preadv2(2) and pwritev2(2). With [Options.LockedThreads] the former
// is faster.
package disk
