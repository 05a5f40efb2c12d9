// Package block stores a namespace on a block device: a disk, a partition, a
// logical volume, a RAID array, a loop device.
//
// # Opening
//
// [Open] opens the device exclusively (O_EXCL), so that neither a mount nor a
// second target can be on it; [InUseError] says who has it, together with
// the command that ends that. [Config.Force] opens it all the same. I/O is direct
// (O_DIRECT), unless Config.Buffered says otherwise.
//
// Blocks have the device's logical size by default, so that file systems and
// partition tables made on the device itself stay valid for hosts. A larger
// block may be torn by a power failure where the device's physical blocks are
// smaller: Info.AtomicUnit then says so.
//
// # Durability
//
// What is durable when, and what a failed flush leads to, is as in package file.
// Info.Volatile follows the write cache that the kernel knows of.
//
// # Zeroing and freeing
//
// Zeroes are written by the device where it can (FALLOC_FL_ZERO_RANGE, which
// falls back to writing them). Freed ranges read as zero where the device
// promises that (FALLOC_FL_PUNCH_HOLE), else they are discarded (BLKDISCARD) and
// read as anything.
//
// # Resizing, and devices that go
//
// Refresh notices another size. A device that is gone latches the store: it
// fails everything until it is opened again.
//
// # Not supported
//
// Zoned devices, and logical blocks of more than 4096 bytes.
package block
