# Our target listens on every address of rxe0, which has several; one is added later. Parameters: nqn.
log=/mnt/host/target-wildcard.log
ip addr replace 10.9.0.22/24 dev host0
( # a subshell: its exit trap undoes everything
setsid nvmeof target --transport verbs --listen 0.0.0.0 --listen '[::]:4421' --nqn "$nqn" --export mem:64MiB --allow-any-host \
  </dev/null >"$log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || :; ip addr del 10.9.0.22/24 dev host0 || :; ip addr del 10.9.0.33/24 dev host0 || :' EXIT
listening() { rdma resource show cm_id | grep -q "LISTEN.*$1"; }
within 60 listening 10.9.0.2:4420
within 60 listening 10.9.0.22:4420
within 60 listening "$host6.*4421"
ip addr replace 10.9.0.33/24 dev host0
within 60 listening 10.9.0.33:4420
connected=0
for at in 10.9.0.2 10.9.0.22 10.9.0.33; do # paths of one subsystem: controller identifiers must differ
  nvme connect -t rdma -a $at -s 4420 -n "$nqn" -i 1 || die "no connection to $at: $(dmesg | tail -5)"
  connected=$((connected + 1))
done
paths() { [[ $(grep -lx "$nqn" /sys/class/nvme/nvme*/subsysnqn | wc -l) == "$connected" ]]; }
within 20 paths
within 20 block_device "$nqn" 1
dd if="$(block_device "$nqn" 1)" of=/dev/null bs=64k count=16 iflag=direct status=none
nvme disconnect -n "$nqn"
kill -TERM $pid
gone() { ! kill -0 $pid; }
within 15 gone
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
note "$(grep -c '"msg":"listening"' "$log") listeners"
)
