# Connects one path to the subsystem. Parameters: nqn, addr, host, port, want (number of paths afterwards).
nvme connect -q "$NVME_HOSTNQN" -I "$hostid" -t rdma -a "$addr" -s "$port" -w "$host" -n "$nqn" -i 2 -c 2 -l 600
paths() {
  local c n=0
  for c in /sys/class/nvme/nvme*; do
    [[ $(<"$c/subsysnqn") == "$nqn" && $(<"$c/state") == live ]] && n=$((n + 1))
  done
  ((n == want))
}
within 20 paths
within 20 block_device "$nqn" 1
