# Runs the target under test, in the peer's namespace. Parameters: action (start, stop; kill: SIGKILL; revive: start
# after kill; kill-revive, stop-revive: both with no pause; takeover: new processes take over, as often as times says),
# nqn, addr, family, storage (memory, file), bytes (of the namespace), transport, access (options that say which hosts
# may connect; empty: any), options (of the export, after a comma; empty: none), second (options of a second namespace,
# in a file; empty: there is none).
backing=/root/target.img second_backing=/root/second.img
log=/mnt/host/target.log
pidfile=/run/target.pid

launch() {
  local export="mem:$((bytes >> 20))MiB" listen=$addr lines
  [[ $storage == file ]] && export=$backing
  export+=${options:-}
  [[ -z ${second:-} ]] || export+=" --export $second_backing,$second"
  [[ $family == ipv6 ]] && listen="[$addr]"
  touch "$log"
  lines=$(wc -l <"$log")
  setsid bash -c '
    GOTRACEBACK=all nvmeof target --transport "$5" --listen "$1" --nqn "$2" --export $3 $6 &
    echo $! >"$4"
    wait $!
    echo "target ended with status $?"' - "$listen:4420" "$nqn" "$export" "$pidfile" "$transport" "${access:---allow-any-host}" </dev/null >>"$log" 2>&1 &
  # Pinning the target's memory takes long the first time, as the guest itself gets that memory only then.
  (within 60 bash -c "tail -n +$((lines + 1)) '$log' | grep -q 'nvme connect'") || { end KILL; die "the target does not serve"; }
}
start() {
  rm -f "$backing" "$second_backing"
  [[ $storage != file ]] || truncate -s "$bytes" "$backing"
  launch
}
# starved prints how long a thread of the target ever waited for a processor. Under emulation that can be a second,
# which is not the target's fault.
starved() {
  local file longest=0 ms
  for file in /proc/"$(<"$pidfile")"/task/*/sched; do
    ms=$(sed -n 's/^wait_max *: *\([0-9]*\).*/\1/p; s/^.*statistics.wait_max *: *\([0-9]*\).*/\1/p' "$file" 2>/dev/null | head -1) ||
      continue # the thread has ended
    ((${ms:-0} <= longest)) || longest=$ms
  done
  note "a thread of the target waited up to $longest ms for a processor"
}
gone() { ! kill -0 "$(<"$pidfile")"; }
end() {
  builtin kill "-$1" "$(<"$pidfile")"
  within 15 gone
}
case $action in
start) start ;;
stop)
  starved
  end TERM
  rm -f "$backing" "$second_backing"
  ! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
  ;;
kill) end KILL ;;
revive) launch ;;
kill-revive) end KILL; launch ;;
takeover)
  access="${access:---allow-any-host} --takeover"
  for ((i = 0; i < times; i++)); do launch; done
  grep -o '"another process has taken over".*"pause":[0-9.]*' "$log" | sed 's/.*:/# pause /'
  ;;
stop-revive) end TERM; launch ;;
esac
