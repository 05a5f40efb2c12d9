# Writes to the disk that is namespace 2 at the time, as fast as possible. Each block is filled with the first letter of
# the UUID of the disk that was opened. Parameters: action (start, finish), nqn.
writer() { # OFFSET in MiB: two writers run at a time
  local dev id
  while [[ ! -e /tmp/replaced.stop ]]; do
    dev=$(block_device "$nqn" 2) || { sleep 0.05; continue; }
    # The device number belongs to this disk as long as it is open.
    exec 3<>"$dev" || continue
    id=$(cat "/sys/dev/block/$(printf '%d:%d' "0x$(stat -Lc %t /proc/self/fd/3)" "0x$(stat -Lc %T /proc/self/fd/3)")/uuid") &&
      dd if="/tmp/replaced.${id:0:1}" bs=4k iflag=fullblock oflag=direct seek=$(($1 * 256)) conv=notrunc >&3 && echo "${id:0:1}" >>/tmp/replaced.done
    exec 3>&-
  done
}
start() {
  rm -f /tmp/replaced.*
  for c in a b; do head -c 4M /dev/zero | tr '\0' $c >/tmp/replaced.$c; done
  for offset in 0 4; do
    nqn=$nqn setsid bash -c "$(declare -f block_device writer); writer $offset" </dev/null >>/tmp/replaced.log 2>&1 &
    echo $! >>/tmp/replaced.pids
  done
  (within 60 test -s /tmp/replaced.done) || die "nothing is written: $(cat /tmp/replaced.log)"
}
# A write that hangs on a removed disk would hang for ever.
ended() { local p; for p in $(</tmp/replaced.pids); do ! kill -0 "$p" || return 1; done; }
finish() {
  : >/tmp/replaced.stop
  within 60 ended
  note "4 MiB written: $(sort /tmp/replaced.done | uniq -c | tr -s ' \n' ' ')"
}
"$action"
