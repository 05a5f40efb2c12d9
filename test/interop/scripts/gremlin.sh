# The raw peer in the namespace "peer" attacks the kernel's target, which runs already. Each attack is a command of its
# own, so that the test knows which one hangs. The results are in a file that outlives the machine. Parameters: nqn,
# addr, attacks.
nvme connect -t rdma -a "$addr" -s 4420 -n "$nqn" -i 1
within 20 controller_live "$nqn"
within 20 block_device "$nqn" 1
dev=$(block_device "$nqn" 1)
from=10.9.0.1
for i in {11..90}; do
  ip -n peer addr replace "10.9.0.$i/24" dev peer0
  from+=,10.9.0.$i
done
out=/mnt/host/gremlin.txt
for attack in $attacks; do
  echo "attack $attack" >>$out
  ip netns exec peer timeout 90 gremlin -target "$addr" -nqn "$nqn" -from "$from" -honest "$dev" -only "^$attack\$" -seconds 3 -rate 1000 \
    -polite -ratio 0 -p99 0 -newcomer 0 -rest 5s 2>&1 | grep -E "^($attack|gremlin)" >>$out || true
  echo "  host: $(cat /sys/class/nvme/"$(controller "$nqn")"/state 2>&1), free: $(awk '/MemAvailable/ {print $2 / 1024}' /proc/meminfo) MiB" >>$out
  dmesg --clear --read-clear 2>/dev/null | grep -E 'BUG|WARNING|Oops|hung_task|blocked for' | head -5 >>$out || true
done
