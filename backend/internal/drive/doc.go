// Package drive reads the health of the physical drive below a block device from the drive's SMART data.
//
// [Health] finds the drive through sysfs(5): below a partition, and below a device-mapper or RAID device on a single
// drive. Virtual disks, and devices on several drives, have no health.
//
// NVMe and ATA drives are read with github.com/dswarbrick/smart, which sends the commands and prints the results; this
// package parses that text. The build tag nosmart excludes the library, and then no drive is read. ATA drives report
// less than NVMe drives: Health.Known says which fields are valid. The process needs CAP_SYS_RAWIO, or CAP_SYS_ADMIN
// for NVMe.
//
// # Not supported
//
// SCSI drives (SAS), drives behind RAID controllers, USB bridges.
package drive
