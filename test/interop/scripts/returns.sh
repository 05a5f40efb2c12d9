# The host's target ends and comes back. Parameters: action (connect, away, back, end; without: the target has come back
# without the second namespace's file; with: the file is back), nqn, addr, host, each.
state=/run/returns
disks() { local id; for id in 1 "$each"; do block_device "$nqn" "$id" || return 1; done; }
both() { disks | wc -l | grep -qx 2; }
connecting() { local c; c=$(controller "$nqn") && [[ $(<"/sys/class/nvme/$c/state") == connecting ]]; }
case $action in
connect)
  nvme connect -q "$NVME_HOSTNQN" -I "$hostid" -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i 1 -c 1 -k 2
  within 20 controller_live "$nqn"
  within 30 both
  disks >$state.disks
  rm -f $state.error $state.waited
  touch $state.on
  # A program that uses a disk meanwhile must see no error.
  setsid bash -c '
    exec 3<>"$2"
    while [[ -e $1.on ]]; do
      dd if=/dev/zero of=/dev/fd/3 bs=4k count=1 oflag=direct conv=notrunc status=none || { echo failed >"$1.error"; break; }
      sleep 0.2
    done' - $state "$(head -1 $state.disks)" </dev/null >/dev/null 2>&1 &
  ;;
away) within 60 connecting ;;
back)
  within 150 controller_live "$nqn"
  want "the disks" "$(disks)" "$(<$state.disks)"
  for disk in $(<$state.disks); do dd if="$disk" of=/dev/null bs=64k count=4 iflag=direct status=none; done
  [[ ! -e $state.error ]] || die "who wrote meanwhile got an error"
  ;;
without)
  within 150 controller_live "$nqn"
  sleep 3 # the kernel scans its namespaces
  want "the disks" "$(disks)" "$(<$state.disks)"
  dd if="$(head -1 $state.disks)" of=/dev/null bs=64k count=4 iflag=direct status=none
  setsid bash -c 'dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct conv=notrunc status=none; echo $? >$2' - \
    "$(tail -1 $state.disks)" $state.waited </dev/null >/dev/null 2>&1 &
  sleep 5
  [[ ! -e $state.waited ]] || die "a write without the file ends with $(<$state.waited)"
  ;;
with)
  within 60 test -s $state.waited
  want "the end of the write that waited" "$(<$state.waited)" 0
  want "the disks" "$(disks)" "$(<$state.disks)"
  ;;
end)
  rm -f $state.on
  [[ ! -e $state.error ]] || die "who wrote meanwhile got an error"
  sleep 0.5
  nvme disconnect -n "$nqn"
  ;;
esac
