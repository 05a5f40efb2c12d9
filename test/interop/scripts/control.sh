# Runs a target that follows a file, in the peer's namespace, and commands to it. Parameters: action (start, stop, run),
# nqn, addr, transport, allow (a host's NQN), command (of run: a shell command, which may use $nqn and $addr).
pidfile=/run/configured.pid log=/mnt/host/configured.log
case $action in
start)
  rm -f /var/tmp/configured* "$log"
  cat >/var/tmp/configured.yaml <<END
version: 1
transport: $transport
limits: {shards: 1}
listeners: [{id: 1, address: "$addr"}]
subsystems:
  - nqn: $nqn
    hosts: [{nqn: "$allow"}]
    namespaces: [{nsid: 1, memory: {size: 64MiB}}]
END
  nvmeof target check /var/tmp/configured.yaml
  setsid bash -c 'echo $$ >"$1"; exec env GOTRACEBACK=all nvmeof target --config /var/tmp/configured.yaml' - "$pidfile" </dev/null >"$log" 2>&1 &
  within 60 grep -q 'nvme connect' "$log"
  ;;
run) eval "$command" ;;
stop)
  builtin kill -TERM "$(<"$pidfile")" || true
  ! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
  ;;
esac
