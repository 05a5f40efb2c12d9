# Connects. Parameters: nqn, addr, host, queues (I/O queues to request; the target must grant all).
nvme connect -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i $queues -c 2
within 20 controller_live "$nqn"
within 20 block_device "$nqn" 1
c=$(controller "$nqn")
want "queue count (admin and I/O)" "$(<"/sys/class/nvme/$c/queue_count")" $((queues + 1))
note "$c has $(block_device "$nqn" 1)"
