// Package file stores a namespace in a regular file.
//
// # Opening
//
// [Open] takes the file as it is, or creates and preallocates it when a size is
// given, so that no later write runs out of space (what a host deallocates it
// gives back, and may then miss). An advisory lock keeps a second opener out,
// in this process or another. I/O is direct (O_DIRECT) where the file system
// can: what it cannot is in [Store.Notes], for the log. Config.Buffered and
// Config.Thin choose otherwise.
//
// Blocks are 4096 bytes where the file's size allows, else 512. On a drive whose
// sectors are smaller than the block, a block may be torn by a power failure:
// Info.AtomicUnit then says so.
//
// # Durability
//
// A write is in the page cache or the drive's cache when it completes; with
// force unit access it is durable (RWF_DSYNC). Flush is fdatasync(2): at most
// one runs at a time for a store, and one serves every flush that was submitted
// before it began, on whatever queue. None is ever repeated: the kernel forgets
// what a failed one did not write. Such a failure, or a write with force unit
// access that fails with an I/O error, latches the store: it answers
// [backend.ErrFailed] to everything but reads until it is opened again.
//
// # Engines
//
// Each queue has its own io_uring, or, where the kernel has none, goroutines
// that call preadv2(2) and pwritev2(2). With [Config.LockedThreads] the former
// is faster.
//
// # Not supported
//
// Block devices, resizing while open, data that must be unaligned to
// Info.Alignment, more than one process on one file.
package file
