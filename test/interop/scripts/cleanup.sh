# Ends all connections and programs, whatever ran before. Parameters: nqn.
umount /tmp/mount 2>/dev/null || true
killall -q -9 fio rping rdma_server rdma_client ib_send_bw ib_write_bw ib_read_bw ib_atomic_bw peer || true
nvme disconnect -n "$nqn" >/dev/null 2>&1 || true
