# In the guest. Parameters: step (connect, verify), nqn, first, second (addresses of the
# target), host (this one's), seed.
set -euo pipefail
shopt -s nullglob

die() { echo "FAIL: $*" >&2; dmesg | tail -n 30 >&2; exit 1; }

within() {
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "not within its time: $*"
    sleep 0.2
  done
}

disk() {
  local s n
  for s in /sys/class/nvme-subsystem/nvme-subsys*; do
    [[ $(<"$s/subsysnqn") == "$nqn" ]] || continue
    for n in "$s"/nvme*n*; do
      [[ -b /dev/${n##*/} ]] && { echo "/dev/${n##*/}"; return; }
    done
  done
  return 1
}

# What the kernel complains of whatever the network does.
broken='BUG:|Oops|general protection|I/O error|Buffer I/O|Removing ctrl|blocked for more than'

case $step in
connect)
  modprobe -a nvme-rdma rdma_rxe virtio_net
  within 20 compgen -G '/sys/class/net/e*'
  found=(/sys/class/net/e*)
  device=${found[0]##*/}
  ip link set "$device" mtu 1500 up
  ip addr replace "$host/24" dev "$device"
  rdma link add rxe0 type rxe netdev "$device"
  for a in "$first" "$second"; do
    # The first connection may come at the time of a kill.
    connect() { nvme connect -t rdma -a "$a" -s 4420 -w "$host" -n "$nqn" -i 1 -c 2 -l 600; }
    within 180 connect
  done
  within 60 disk
  ;;
verify)
  dev=$(disk) || die "the disk is gone"
  dmesg -C
  fio --name=verify --filename="$dev" --ioengine=libaio --direct=1 --rw=randrw --bsrange=4k-32k --iodepth=4 --size=4M \
    --randseed="$seed" --verify=crc32c --verify_fatal=1 --verify_async=0 --fsync=64 --thinktime=20ms --output-format=json --output=fio.out ||
    { cat fio.out; die "fio failed"; }
  jq -e '[.jobs[].error] | add == 0' fio.out >/dev/null || { cat fio.out; die "fio counted errors"; }
  jq -r '.jobs[0] | "written \(.write.io_bytes)\nread \(.read.io_bytes)"' fio.out
  echo "reconnects $(dmesg | grep -c 'Successfully reconnected' || true)"
  if dmesg | grep -E "$broken"; then die "the kernel complains"; fi
  ;;
esac
