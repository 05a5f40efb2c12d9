# Our host, at the peer's end, follows the kernel's discovery controllers and stays connected to the subsystems that
# they list. Parameters: nqn, addr, host, transport, unique (a name of the kernel's discovery subsystem).
cfs=/sys/kernel/config/nvmet
second=$nqn.second
other=10.9.0.3 # a second address of our host: each process needs its own
ip addr replace $other/24 dev peer0
export NVMEOF_RUN_DIR=/run/nvmeof-interop
rm -rf $NVMEOF_RUN_DIR
as=(-t rdma -a "$addr" -s 4420 --provider "$transport" -q "$NVME_HOSTNQN" -I "$hostid")

watch_out=/tmp/watch.out watch_err=/tmp/watch.err all_out=/tmp/all.out all_err=/tmp/all.err
leave() {
  trap - EXIT
  [[ -z ${watch:-} ]] || kill "$watch" 2>/dev/null || true
  [[ -z ${all:-} ]] || kill "$all" 2>/dev/null || true
  tail -n 50 $watch_out $watch_err $all_out $all_err || true
  echo -n nqn.2014-08.org.nvmexpress.discovery >$cfs/discovery_nqn || true
  rm -f $cfs/ports/2/subsystems/* "$cfs/ports/1/subsystems/$second"
  rmdir $cfs/ports/1/referrals/* $cfs/ports/2/referrals/* 2>/dev/null || true
  rmdir $cfs/ports/2 "$cfs/subsystems/$second" 2>/dev/null || true
}
trap leave EXIT
told() { within "$1" grep -q -- "$2" "$3"; }
# seen COUNT TEXT: whether COUNT lines of list-subsys contain TEXT.
seen() { [[ $(nvmeof list-subsys | grep -c -- "$2") == "$1" ]]; }

follow() { # starts a persistent discovery controller; its events go to $watch_out
  nvmeof discover "${as[@]}" -w "$host" --persistent -o json >$watch_out 2>$watch_err &
  watch=$!
  told 15 "\"subnqn\":\"$nqn\"" $watch_out
}
follow
mkdir "$cfs/subsystems/$second"
echo 1 >"$cfs/subsystems/$second/attr_allow_any_host"
began=$(now_ms)
ln -s "$cfs/subsystems/$second" $cfs/ports/1/subsystems/
told 10 "\"event\":\"added\".*\"subnqn\":\"$second\"" $watch_out
note "told of a new subsystem within $(($(now_ms) - began)) ms"
rm "$cfs/ports/1/subsystems/$second"
told 10 "\"event\":\"removed\".*\"subnqn\":\"$second\"" $watch_out

# Another port exports the subsystem. The two ports refer to each other, and one refers to an address without a target.
mkdir $cfs/ports/2
echo rdma >$cfs/ports/2/addr_trtype
echo ipv4 >$cfs/ports/2/addr_adrfam
echo "$addr" >$cfs/ports/2/addr_traddr
echo 4421 >$cfs/ports/2/addr_trsvcid
ln -s "$cfs/subsystems/$second" $cfs/ports/2/subsystems/
refer() { # FROM NAME ADDRESS PORT
  local r=$cfs/ports/$1/referrals/$2
  mkdir "$r"
  echo rdma >"$r/addr_trtype"
  echo ipv4 >"$r/addr_adrfam"
  echo "$3" >"$r/addr_traddr"
  echo "$4" >"$r/addr_trsvcid"
  echo 1 >"$r/enable"
}
refer 2 back "$addr" 4420
refer 1 there "$addr" 4421
told 20 "\"event\":\"added\".*\"trsvcid\":\"4421\",\"subnqn\":\"$second\"" $watch_out
refer 1 nowhere 10.9.0.77 4420
told 60 "unreachable 10.9.0.77:4420: .*; retrying in " $watch_err
rmdir $cfs/ports/1/referrals/nowhere

# Connects to all that they list, persistently.
nvmeof connect-all "${as[@]}" -w $other --persistent -c 1 >$all_out 2>$all_err &
all=$!
within 30 seen 2 " live$"
nvmeof list | tee list.txt
grep -q nvme0n1 list.txt || die "the namespace is not listed"
want "controllers by port 4421" "$(nvmeof list-subsys | grep -c 'trsvcid=4421,host_traddr=10.9.0.3 live$')" 1

# The kernel's own connection to the same subsystem is listed alike. Its list has the ANA state, since it lists one
# device.
kernel() { nsenter --net=/proc/1/ns/net "$@"; }
kernel nvme connect -q "$NVME_HOSTNQN" -I "$hostid" -t rdma -a "$addr" -s 4420 -w "$addr" -n "$nqn"
within 10 controller_live "$nqn"
same() { # FORMAT: without names and host addresses
  local f='s/nvme[0-9]*/nvmeN/; s/subsys[0-9]*/subsysN/; s/host_traddr=[0-9.]*/host_traddr=X/'
  nvmeof list-subsys /dev/nvme0n1 -o "$1" | sed "$f" >ours.txt
  kernel nvme list-subsys "$(block_device "$nqn" 1)" -o "$1" | sed "$f" >kernels.txt
  diff kernels.txt ours.txt >&2 || die "list-subsys -o $1 differs from nvme-cli's"
}
same normal
same json
kernel nvme disconnect -n "$nqn"

# Linux ends the controllers of a port when a subsystem is removed from the port.
rm "$cfs/ports/1/subsystems/$nqn"
within 20 seen 1 " connecting$"
ln -s "$cfs/subsystems/$nqn" $cfs/ports/1/subsystems/
within 30 seen 2 " live$"
nvmeof disconnect -n "$second" | grep -q 'disconnected 1 controller(s)$' || die "one controller was not disconnected"
within 5 seen 1 " live$"
nvmeof disconnect-all
within 5 seen 0 live
kill "$all"
wait "$all" || die "connect-all ended with status $?"
all=
want "what is left" "$(nvmeof list-subsys -o json)" "[]"
kill "$watch"
wait "$watch" || die "discover ended with status $?"

# A discovery subsystem with a unique name is followed under that name.
echo -n "$unique" >$cfs/discovery_nqn # the attribute accepts no newline
follow
within 10 bash -c "dmesg | grep -q 'creating discovery controller .* for subsystem $unique '"
kill "$watch"
wait "$watch" || die "discover ended with status $?"
watch=
leave
