# Runs a program beside the scripts that follow. Parameters: action (start, finish), name, command, ready (a command
# that succeeds when the program can be used), limit (seconds that the program may take to exit after finish; its status
# must be 0).
out=/tmp/$name.out status=/tmp/$name.status
case $action in
start)
  rm -f "$out" "$status"
  setsid bash -c 'eval "$1"; echo $? >"$2"' - "$command" "$status" </dev/null >"$out" 2>&1 &
  within 20 bash -c "test -s '$status' || { $ready; }"
  [[ ! -s $status ]] || { cat "$out"; die "$name ended at once"; }
  ;;
finish)
  end=$((SECONDS + limit))
  until [[ -s $status ]]; do
    ((SECONDS < end)) || { cat "$out"; die "$name did not end"; }
    sleep 0.1
  done
  cat "$out"
  want "status of $name" "$(<"$status")" 0
  ;;
esac
