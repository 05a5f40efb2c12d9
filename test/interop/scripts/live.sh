# Runs the target that a script can change, in the peer's namespace. Parameters: action (start, stop, change), nqn,
# addr, transport, command (of change, see test/interop/live).
input=/run/live.in output=/mnt/host/live.out
case $action in
start)
  rm -f "$input" "$output"
  mkfifo "$input"
  setsid bash -c 'exec 9<>"$1"; exec live -transport "$5" -addr "$2" -nqn "$3" <&9 >"$4" 2>/mnt/host/live.log' \
    - "$input" "$addr" "$nqn" "$output" "$transport" </dev/null >/dev/null 2>&1 &
  within 20 grep -q ready "$output"
  ;;
change)
  answers=$(wc -l <"$output")
  echo "$command" >"$input"
  within 30 bash -c "(( \$(wc -l <'$output') > $answers ))"
  answer=$(tail -1 "$output")
  want "the answer to '$command'" "$answer" ok
  ;;
stop)
  builtin kill -TERM "$(pidof live)" || true
  ! grep -nE '^(panic|fatal error|goroutine [0-9]+)' /mnt/host/live.log || die "the target crashed"
  ;;
esac
