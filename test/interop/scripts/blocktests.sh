# Runs the tests of package block, as root in a guest of their own: loop devices, disks of scsi_debug that fail on
# demand, drives with SMART data.
modprobe -a loop nvme ata_piix sd_mod
within 20 test -b /dev/nvme0n1
within 20 test -b /dev/sda
cp /mnt/host/block.test /usr/local/bin/
cd /var/tmp
TMPDIR=/var/tmp block.test -test.v -scsi_debug -drives /dev/nvme0n1,/dev/sda 2>&1
