# Our target is on a bond, whose address moves from one interface to the other (the RDMA CM reports ADDR_CHANGE).
# Parameters: nqn.
log=/mnt/host/target-moved.log
modprobe -a bonding dummy
ip link add bond0 type bond mode active-backup fail_over_mac active
for i in dummy0 dummy1; do
  ip link show $i >/dev/null 2>&1 || ip link add $i type dummy
  ip link set $i down
  ip link set $i master bond0
done
ip addr add 10.7.0.1/24 dev bond0
ip link set bond0 up
rdma link add rxebond type rxe netdev bond0
( # a subshell: its exit trap undoes everything
setsid nvmeof target --transport verbs --listen 10.7.0.1 --nqn "$nqn" --export mem:64MiB --allow-any-host \
  </dev/null >"$log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || :; rdma link delete rxebond || :; ip link del bond0 || :' EXIT
listeners() { [[ $(grep -c '"msg":"listening"' "$log") == "$1" ]]; }
within 60 listeners 1
other=dummy1
[[ $(</sys/class/net/bond0/bonding/active_slave) == dummy0 ]] || other=dummy0
before=$(</sys/class/net/bond0/address)
ip link set bond0 type bond active_slave $other
[[ $(</sys/class/net/bond0/address) != "$before" ]] || die "the bond's address is the same"
within 60 listeners 2
kill -0 $pid
grep -q 'moved to another interface' "$log" || die "the target does not say why: $(tail -3 "$log")"
kill -TERM $pid
gone() { ! kill -0 $pid; }
within 15 gone
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
)
