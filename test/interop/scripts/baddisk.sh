# Runs the tests of whole targets on disks that fail, as root in a guest of their own, on a disk of scsi_debug.
modprobe -a sd_mod
mount -t debugfs none /sys/kernel/debug 2>/dev/null || mountpoint -q /sys/kernel/debug
cp /mnt/host/baddisk.test /usr/local/bin/
cd /var/tmp
ip link set lo up
TMPDIR=/var/tmp baddisk.test -test.v -test.run TestDevice -scsi_debug 2>&1
