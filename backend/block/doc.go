// Package block stores a namespace on a block device: a disk, a partition, a
// logical volume, a RAID array, a loop device.
//
// # Opening
//
// [Open] opens the device exclusively (O_EXCL), so that it can be neither mounted nor served a second time. An
// [InUseError] names the user of the device and the command that ends that use. [Config.Force] opens the device anyway.
// I/O is direct (O_DIRECT), unless Config.Buffered is set.
//
// By default blocks have the device's logical block size, so that file systems and partition tables made on the device
// itself are valid for hosts. A power failure may tear a block that is larger than the device's physical blocks;
// Info.AtomicUnit then says so.
//
// # Durability
//
// Durability, and the consequences of a failed flush, are as in package file. Info.Volatile reflects the write cache
// that the kernel reports.
//
// # Zeroing and freeing
//
// The device writes zeroes itself if it can (FALLOC_FL_ZERO_RANGE, which otherwise writes them). Freed ranges read as
// zero where the device guarantees that (FALLOC_FL_PUNCH_HOLE). Otherwise they are discarded (BLKDISCARD) and their
// content is undefined.
//
// # Resizing and removal
//
// Refresh detects a changed size. The removal of a device latches the store: every request fails until the store is
// opened again.
//
// # Not supported
//
// Zoned devices, and logical blocks of more than 4096 bytes.
package block
