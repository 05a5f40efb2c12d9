# Our target is on rxe0 of the peer's guest, which is removed and added. Parameters: nqn, addr, action (start: before
# the device exists; remove, return; stop).
log=/mnt/host/target-removal.log
pidfile=/run/verbstarget.pid
alive() { kill -0 "$(<"$pidfile")" || die "the target is gone: $(tail -5 "$log")"; }
listening() { rdma resource show cm_id | grep -q "LISTEN.*$addr:4420"; }
# opened prints how many files of RDMA devices the target has open.
opened() { ls -l "/proc/$(<"$pidfile")/fd" | grep -c infiniband || :; }
add() {
  rdma link add rxe0 type rxe netdev peer0
  within 60 listening
  alive
  sleep 0.5
  note "the target has $(opened) files of RDMA devices"
}
remove() {
  local began
  began=$(now_ms)
  timeout 30 rdma link delete rxe0 || die "rdma link delete does not return: $(tail -5 "$log")"
  note "the device was gone after $(($(now_ms) - began)) ms"
  alive
  want "files of RDMA devices without a device" "$(ls -l "/proc/$(<"$pidfile")/fd" | grep -c 'infiniband/uverbs' || :)" 0
}
case $action in
start)
  rdma link delete rxe0
  GOTRACEBACK=all setsid bash -c 'echo $$ >"$1"; exec nvmeof target --transport verbs --listen "$2" --nqn "$3" \
    --export mem:64MiB --allow-any-host' - "$pidfile" "$addr" "$nqn" </dev/null >"$log" 2>&1 &
  within 60 grep -q 'listener waits for its address' "$log"
  alive
  add
  opened >/run/verbstarget.files
  ;;
remove) remove ;;
return)
  add
  want "files of RDMA devices after the return" "$(opened)" "$(</run/verbstarget.files)"
  ;;
stop)
  alive
  kill -TERM "$(<"$pidfile")"
  gone() { ! kill -0 "$(<"$pidfile")"; }
  within 15 gone
  ! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
  ! dmesg | grep -E 'BUG|WARNING|Oops|blocked for more than' || die "the kernel complains"
  grep -oE '"msg":"(transport|listening|not )[^}]*' "$log" | cut -c1-200 | sed 's/^/# /' | head -20
  ;;
esac
