# Runs commands by nvme-cli, through the kernel's host, and by our program, at an address of its own beside the target.
# The answers of command N are in N.nvme.out, .err and .rc, and N.ours.*; the test compares them. Parameters: nqn, addr,
# cases (one per line: c, n or - for the device that nvme-cli gets, which is the controller, the namespace or none; then
# the command).
dir=/mnt/host/nvmecli
rm -rf "$dir"
mkdir "$dir"
cd "$dir"
c=$(controller "$nqn")
a=$(block_device "$nqn" 1)
want "the controller" "$c" nvme0 # our program gives its own controller this name
ip -n peer addr replace 10.9.0.3/24 dev peer0
at=(-t rdma -a "$addr" -s 4420 -w 10.9.0.3 --nqn "$nqn" --nr-io-queues 2 --keep-alive-tmo 5 --queue-size 128
  --hostnqn "$(<"/sys/class/nvme/$c/hostnqn")" --hostid "$(<"/sys/class/nvme/$c/hostid")")
head -c 65536 /dev/urandom >data
udevadm settle --timeout=10 || true
answer() { # NAME COMMAND...
  local name=$1 rc=0; shift
  "$@" >"$name.out" 2>"$name.err" <data || rc=$?
  echo "$rc" >"$name.rc"
}
n=0
while read -r device command; do
  set -- $command # splits into words
  verb=$1; shift
  case $device in
  c) answer $n.nvme nvme "$verb" "/dev/$c" "$@" ;;
  n) answer $n.nvme nvme "$verb" "$a" "$@" ;;
  -) answer $n.nvme nvme "$verb" "$@" ;;
  esac
  if [[ $device == - ]]; then
    answer $n.ours nvmeof "$verb" "$@"
  else
    answer $n.ours ip netns exec peer nvmeof "$verb" "${at[@]}" "$@"
  fi
  ((n += 1))
done <<<"$cases"
note "$n commands"
