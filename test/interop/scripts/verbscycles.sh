# Our host connects to our target, both on rxe0's address, and disconnects many times with no pause. Neither may keep
# anything, and no connection may wait for the end of an earlier one. Parameters: nqn, times.
log=/mnt/host/target-cycles.log
setsid nvmeof target --transport verbs --listen "$host4" --nqn "$nqn" --export mem:64MiB --allow-any-host \
  </dev/null >"$log" 2>&1 &
pid=$!
within 60 grep -q 'nvme connect' "$log"
resources() { rdma resource show | sed 's/^[0-9]*: //'; }
run() { cycles -transport verbs -host "$host4" -addr "$host4" -nqn "$nqn" -times "$1"; }
run 20
idle() { ! rdma resource show cm_id | grep -q 'state CONNECT'; }
within 20 idle
before=$(resources) files=$(ls "/proc/$pid/fd" | wc -l)
run "$times"
same() { [[ $(resources) == "$before" && $(ls "/proc/$pid/fd" | wc -l) == "$files" ]]; }
(within 20 same) || die "the target has $(resources) and $(ls "/proc/$pid/fd" | wc -l) files, before it had $before and $files"
note "it has $before, $files files, $(sed -n 's/^VmRSS:[ \t]*//p' "/proc/$pid/status") of memory"
builtin kill -TERM "$pid"
gone() { ! builtin kill -0 "$pid"; }
within 15 gone
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
