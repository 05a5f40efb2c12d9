# Runs a verified load through attach in the background. Parameters: action (start; lost, live: wait until attach has
# printed that once more; finish; stop: kill what runs), nqn, addr, host, inside, socket, seconds (of the load).
out=/tmp/attachload.out status=/tmp/attachload.status fio=/tmp/attachload.fio pid=/run/attachload.pid
count() { (($(grep -c "$addr: $1" "$out") > $(cat "/tmp/attachload.$1" 2>/dev/null || echo 0))); }
told() {
  within 60 count "$1"
  grep -c "$addr: $1" "$out" >"/tmp/attachload.$1"
}
case $action in
start)
  rm -f /tmp/attachload.*
  setsid $inside nvmeof attach -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" --socket "$socket" -k 2 -c 2 </dev/null >"$out" 2>&1 &
  echo $! >"$pid"
  within 60 grep -q nbd+unix "$out"
  # fio reads and compares what it wrote after each 64 blocks, and at the end.
  setsid bash -c 'fio --name=load --ioengine=nbd --uri="nbd+unix:///1?socket=$1" --rw=randwrite --bs=4k --iodepth=16 --size=16M \
    --time_based --runtime="$2" --rate_iops=200 --verify=crc32c --verify_backlog=64 --verify_fatal=1 >"$3" 2>&1; echo $? >"$4"' \
    - "$socket" "$seconds" "$fio" "$status" </dev/null >/dev/null 2>&1 &
  ;;
lost) told connecting ;;
live) told live ;;
finish)
  [[ ! -s $status ]] || { cat "$fio"; die "the load ended before the last change"; }
  within $((seconds + 60)) test -s "$status"
  cat "$fio"
  want "status of fio" "$(<"$status")" 0
  sed -n 's/^ *\(read\|write\): /# \1 /p' "$fio"
  ;;
stop)
  builtin kill -TERM "$(<"$pid")"
  within 20 bash -c "! kill -0 $(<"$pid")"
  cat "$out"
  told=$(grep 'nbd: clients' "$out") || die "attach does not tell what clients did"
  note "$told"
  [[ ! $told =~ refused|failed|disconnected ]] || die "attach tells of trouble"
  ;;
esac
