# Checks that a file system keeps its contents: make, mount, copy a tree, unmount, check, mount again, compare.
# Parameters: nqn.
dev=$(block_device "$nqn" 1)
mkfs.ext4 -q -F "$dev"
mkdir -p /tmp/mount
mount "$dev" /tmp/mount
cp -a /etc /usr/lib/udev /tmp/mount/
(cd /tmp/mount && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/tmp/before.sum
umount /tmp/mount
fsck.ext4 -fn "$dev"
echo 3 >/proc/sys/vm/drop_caches
mount "$dev" /tmp/mount
(cd /tmp/mount && sha256sum --quiet -c /tmp/before.sum)
note "$(wc -l </tmp/before.sum) files, $(df -m --output=used /tmp/mount | tail -1) MiB"
umount /tmp/mount
