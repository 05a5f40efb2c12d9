// Package file stores a namespace in a regular file.
//
// # Opening
//
// [Open] takes the file as it is, or creates and preallocates it when a size is
// given, so that no later write runs out of space. A file that has all its storage
// keeps it, whatever hosts deallocate; one that has holes, or is to be thin, gives
// back what they do. An advisory lock keeps a second opener out,
// in this process or another; others that have the file are found by what the kernel
// tells and by the locks of QEMU, which for its part refuses a file that is open here
// (package backend/internal/inuse; qemu-img info -U looks at it all the same). [Config.Force] opens it in
// spite of them. I/O is direct (O_DIRECT) where the file system
// can: what it cannot is in [Store.Notes], for the log. Config.Buffered and
// Config.Thin choose otherwise.
//
// Blocks are 4096 bytes where the file's size allows, else 512. On a drive whose
// sectors are smaller than the block, a block may be torn by a power failure:
// Info.AtomicUnit then says so.
//
// # What is lost
//
// A file that Open creates is marked, by the extended attribute user.nvmeof.created, or
// by .NAME.mark beside it where the file system has none. So who serves it can distinguish it from another one that was at the path and is
// lost, and that hosts may know ([Store.Mark]). A file that is removed or moved while it
// is open says so ([Store.Detached]).
//
// # Durability
//
// A write that has succeeded is in the drive's cache, with [Config].Buffered in the page
// cache. One with force unit access is durable (RWF_DSYNC of pwritev2(2), or a write, then
// fdatasync(2)), and after a Flush all that completed before it are. No sync is ever
// repeated: the kernel forgets what a failed one did not write, and reports it once. Such
// a failure latches the store: from then on nothing is acknowledged but reads, until
// Clear takes that back or it is opened again. Package backend/internal/disk has the rest.
//
// # Resizing
//
// The file may be made longer or shorter by others while it is open; Refresh
// notices it. What was added by others than [Store.Extend] is not preallocated. Until Refresh, a read beyond
// the end of a file that became shorter fails and a write makes it longer again, with
// zeroes before it. Of a file on ext4, and of one that had all its storage on XFS or tmpfs, [Store.Missing] finds that afterwards,
// unless hosts give storage back at the time; of others nothing does.
//
// # Copies
//
// Where the file system shares blocks between ranges (XFS and Btrfs can), a copy is
// copy_file_range(2); elsewhere the store has no OpCopy, since reads and writes are
// faster than what the kernel does then.
//
// # Not supported
//
// Block devices (see package block), data that must be unaligned to
// Info.Alignment, more than one process on one file.
package file
