# Runs a target with many namespaces, of which the host may use few, in the peer's namespace. Parameters: action (start,
# kill, launch, stop; hide, show: the file of the host's second namespace), nqn, addr, transport, allow (a host's NQN),
# each (number of namespaces in each of three subsystems).
file=/var/tmp/many.yaml backing=/var/tmp/many.img pidfile=/run/many.pid log=/mnt/host/many.log

document() {
  local s id
  printf 'version: 1\ntransport: %s\nlimits: {shards: 1}\nlisteners: [{id: 1, address: "%s"}]\nsubsystems:\n' "$transport" "$addr"
  for s in "$nqn:b" "$nqn:c" "$nqn"; do
    printf '  - nqn: %s\n    hosts: [{nqn: "%s", access: none, namespaces: [{nsid: 1, access: write}, {nsid: %s, access: write}]}]\n    namespaces:\n' "$s" "$allow" "$each"
    for id in 1 "$each"; do printf '      - {nsid: %s, file: {path: "%s"}}\n' "$id" "$backing.${s##*:}.$id"; done
    for ((id = 2; id < each; id++)); do printf '      - {nsid: %s, memory: {size: 4KiB}}\n' "$id"; done
  done
}
launch() {
  setsid bash -c 'echo $$ >"$1"; exec env GOTRACEBACK=all nvmeof target --config "$2" --socket none --log-level warn' - "$pidfile" "$file" </dev/null >>"$log" 2>&1 &
}
served() { [[ $(grep -c 'on a Linux host: .*-n '"$nqn"'$' "$log") -ge $1 ]]; }
gone() { ! kill -0 "$(<"$pidfile")"; }
case $action in
start)
  rm -f "$file" "$backing".* "$log"
  touch "$log"
  document >"$file"
  for path in $(grep -o "$backing"'[^"]*' "$file"); do truncate -s 16M "$path"; done
  launch
  within 120 served 1
  ;;
kill)
  builtin kill -KILL "$(<"$pidfile")"
  within 15 gone
  ;;
launch) launch ;;
hide) mv "$backing.${nqn##*:}.$each" "$backing.hidden" ;;
show) mv "$backing.hidden" "$backing.${nqn##*:}.$each" ;;
stop)
  builtin kill -TERM "$(<"$pidfile")" || true
  rm -f "$backing".*
  ! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
  note "connects that were refused: $(grep -c 'connect refused' "$log" || true), as too early: $(grep -c 'being changed' "$log" || true)"
  ;;
esac
