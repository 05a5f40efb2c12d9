# Each attack of the raw peer in the namespace "peer" on the kernel's target, which was started,
# by a command of its own, so that one that hangs is known. Parameters: nqn, addr.
nvme connect -t rdma -a "$addr" -s 4420 -n "$nqn" -i 1
within 20 controller_live "$nqn"
within 20 block_device "$nqn" 1
dev=$(block_device "$nqn" 1)
for i in {11..30}; do ip -n peer addr replace "10.9.0.$i/24" dev peer0; done
from=10.9.0.1$(printf ',10.9.0.%d' {11..30})
for attack in $(gremlin -list | awk '{print $1}'); do
  ip netns exec peer timeout 60 gremlin -target "$addr" -nqn "$nqn" -from "$from" -honest "$dev" -only "^$attack\$" -seconds 3 -rate 1000 \
    -polite -ratio 0 -p99 0 -newcomer 0 -rest 5s 2>&1 | grep -v '^attack' || true
  echo "$attack: state $(cat /sys/class/nvme/"$(controller "$nqn")"/state 2>/dev/null)"
done
dmesg | grep -E 'BUG|WARNING|Oops|hung' | head -20 || true
