// Package drive reads the health of the physical drive that a block device is
// on, by its SMART data.
//
// [Health] finds the drive through sysfs(5): below a partition, and below what
// the device mapper or a RAID puts on a single drive. Virtual disks, and what
// lies on several drives, have none.
//
// NVMe and ATA drives are read through github.com/dswarbrick/smart, which sends
// the commands and prints what it got; the numbers are taken from its text. With
// the build tag nosmart that library is left out, and no drive is read. ATA
// drives report less than NVMe drives do: Health.Known says what is there. The
// process needs CAP_SYS_RAWIO, or CAP_SYS_ADMIN for NVMe.
//
// # Not supported
//
// SCSI drives (SAS), drives behind RAID controllers, USB bridges.
package drive
