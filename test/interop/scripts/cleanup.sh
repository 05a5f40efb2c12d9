# Leaves nothing connected, whatever happened before. Parameters: nqn.
umount /tmp/mount 2>/dev/null || true
killall -q -9 fio || true
nvme disconnect -n "$nqn" >/dev/null 2>&1 || true
