# A host whose target ends and comes back. Parameters: action (connect, away, back, end),
# nqn, addr, host.
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
  rm -f $state.error
  touch $state.on
  # Who uses a disk meanwhile sees no error.
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
end)
  rm -f $state.on
  [[ ! -e $state.error ]] || die "who wrote meanwhile got an error"
  sleep 0.5
  nvme disconnect -n "$nqn"
  ;;
esac
