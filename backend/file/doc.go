// Package file implements a store in a regular file.
//
// # Opening
//
// [Open] opens an existing file. If a size is given and the file is missing, it creates and preallocates the file, so
// that no later write runs out of space. A fully allocated file keeps its storage, whatever hosts deallocate. A file
// with holes, and one that is to be thin, frees what hosts deallocate. Writes may run out of space in any file on a file
// system that rewrites nothing in place (Btrfs), and in one whose blocks another file shares, as after cp(1) on XFS;
// [Store.Notes] says so.
//
// An advisory lock keeps out a second opener, in this process or another. Other users of the file are found through the
// kernel and through QEMU's locks (package backend/internal/inuse). QEMU in turn refuses a file that is open here,
// although qemu-img info -U still reads it. [Config.Force] opens the file in spite of such users.
//
// I/O is direct (O_DIRECT) where the file system supports it; [Store.Notes] reports what it does not support.
// Config.Buffered and Config.Thin select otherwise.
//
// Blocks are 4096 bytes if the file's size allows it, otherwise 512. If the drive's sectors are smaller than the block,
// a power failure may tear a block; Info.AtomicUnit then says so.
//
// # Loss of the file
//
// Open marks a file that it creates with the extended attribute user.nvmeof.created, or with the file .NAME.mark beside
// it if the file system has no extended attributes. The mark distinguishes the file from a lost one at the same path,
// and hosts can be told of the loss ([Store.Mark]). [Store.Detached] reports that a file was removed or moved while it
// is open.
//
// # Durability
//
// A completed write is in the drive's cache, or with [Config].Buffered in the page cache. A write with force unit
// access is durable (RWF_DSYNC of pwritev2(2), or a write, then fdatasync(2)). A Flush makes all writes durable that
// completed before it. No sync is ever repeated: the kernel forgets what a failed sync did not write, and reports the
// failure once. Such a failure latches the store: from then on only reads succeed, until Clear or until it is opened
// again. Package backend/internal/disk has the details.
//
// # Resizing
//
// Other programs may extend or truncate the file while it is open; Refresh detects that. What they add is not
// preallocated, unlike what [Store.Extend] adds. After a truncation and before Refresh, a read beyond the end fails,
// and a write extends the file again, with zeroes before it. [Store.Missing] detects that afterwards for a file on
// ext4, and for a file on XFS or tmpfs that was fully allocated, unless hosts deallocate at that time. On other file
// systems it is not detected.
//
// # Copies
//
// If the file system can share blocks between ranges (as XFS and Btrfs can), a copy is a copy_file_range(2). Otherwise
// the store has no OpCopy, since reads and writes are faster than copy_file_range(2) without sharing.
//
// # Not supported
//
// Block devices (see package block), data that is not aligned to Info.Alignment, and more than one process per file.
package file
