# Connects with four I/O queues. Parameters: nqn, addr, host, options.
nvme connect -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i 4 -c 2 $options
within 20 controller_live "$nqn"
within 20 block_device "$nqn" 1
c=$(controller "$nqn")
want "queue count (admin and I/O)" "$(<"/sys/class/nvme/$c/queue_count")" 5
note "$c has $(block_device "$nqn" 1)"
