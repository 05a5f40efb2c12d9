# Runs the kernel's own target. Parameters: action (start, stop; kill, revive, kill-revive, stop-revive: act on its port
# only, whose removal ends all its controllers), nqn, addr, family, storage (memory, file).
cfs=/sys/kernel/config/nvmet
port=$cfs/ports/1
subsystem=$cfs/subsystems/$nqn
backing=/root/nvmet.img

start() {
  modprobe -a nvmet nvmet-rdma null_blk loop
  mkdir "$subsystem"
  echo 1 >"$subsystem/attr_allow_any_host"
  mkdir "$subsystem/namespaces/1"
  if [[ $storage == memory ]]; then
    local null=/sys/kernel/config/nullb/interop
    mkdir -p "$null"
    echo 0 >"$null/power" 2>/dev/null || true
    echo 512 >"$null/blocksize"
    echo 256 >"$null/size"
    echo 1 >"$null/memory_backed"
    echo 1 >"$null/discard"
    echo 1 >"$null/power"
    echo -n /dev/interop >"$subsystem/namespaces/1/device_path"
  else
    # A loop device, since nvmet gives a file the block size of its file system.
    truncate -s 256M "$backing"
    echo -n "$(losetup --find --show "$backing")" >"$subsystem/namespaces/1/device_path"
  fi
  # Since Linux 6.13.
  [[ ! -e $subsystem/namespaces/1/resv_enable ]] || echo 1 >"$subsystem/namespaces/1/resv_enable"
  echo 1 >"$subsystem/namespaces/1/enable"
  mkdir "$port"
  echo rdma >"$port/addr_trtype"
  echo "$family" >"$port/addr_adrfam"
  echo "$addr" >"$port/addr_traddr"
  echo 4420 >"$port/addr_trsvcid"
  ln -s "$subsystem" "$port/subsystems/"
}

stop() {
  rm -f "$port"/subsystems/*
  rmdir "$port"
  echo 0 >"$subsystem/namespaces/1/enable"
  rmdir "$subsystem/namespaces/1" "$subsystem"
  [[ $storage == file ]] || { echo 0 >/sys/kernel/config/nullb/interop/power; rmdir /sys/kernel/config/nullb/interop; }
  losetup --detach-all
  rm -f "$backing"
}
kill() { rm "$port"/subsystems/*; }
revive() { ln -s "$subsystem" "$port/subsystems/"; }
case $action in
*-revive) kill; revive ;;
*) "$action" ;;
esac
