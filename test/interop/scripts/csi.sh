# Runs a CSI driver and the target that has its volumes. Parameters: action (target: starts the target in the peer's
# namespace; driver: starts the driver beside the kernel's initiator, again whenever it ends; finish: ends both), addr,
# nqn, inside (a command prefix that enters the driver's network namespace), options (of the driver).
dir=/srv/csi socket=/run/csi-target.sock
case $action in
target)
  rm -rf "$dir"
  mkdir -p "$dir"
  printf 'version: 1\nlisteners:\n  - id: 1\n    address: %s\nsubsystems:\n  - nqn: %s\n    refuse-duplicates: true\n' "$addr" "$nqn" >"$dir/target.yaml"
  setsid nvmeof target --config "$dir/target.yaml" --socket "$socket" </dev/null >/mnt/host/csi-target.log 2>&1 &
  echo $! >/run/csi-target.pid
  within 30 nvmeof ls --socket "$socket"
  ;;
driver)
  printf 'targets:\n  - name: guest\n    control: unix:%s\n    subsystem: %s\n    directory: %s\n' "$socket" "$nqn" "$dir" >/run/csi.yaml
  modprobe nbd # for the driver's option --attach
  # Restarts the driver when it is killed, as a kubelet does.
  setsid bash -c 'while :; do
    "$@" & echo $! >/run/csi.pid; wait $!
  done' supervisor $inside nvmeof-csi $options --endpoint unix:///run/csi.sock --config /run/csi.yaml --node --hostnqn "$NVME_HOSTNQN" --hostid "$hostid" -v </dev/null >/mnt/host/csi.log 2>&1 &
  echo $! >/run/csi-supervisor.pid
  within 30 test -S /run/csi.sock
  ;;
finish)
  ! controller "$nqn" || die "the last volume is gone, and there is a controller yet"
  want "what is mounted" "$(grep -c /run/csi/ /proc/mounts || true)" 0
  want "notes of the driver" "$(find /run/nvmeof-csi -name '*.subsystem' -o -name '*.volume' -o -name '*.sock' | wc -l)" 0
  within 15 bash -c "! pgrep -f '[n]vmeof attach .*/run/nvmeof-csi/'"
  kill "$(</run/csi-supervisor.pid)"
  for p in csi csi-target; do
    kill "$(<"/run/$p.pid")"
    within 15 bash -c "! kill -0 $(<"/run/$p.pid")"
  done
  ! grep -nE '^(panic|fatal error|goroutine [0-9]+)' /mnt/host/csi.log /mnt/host/csi-target.log || die "a program crashed"
  want "namespaces that are saved" "$(grep -c nsid "$dir/target.yaml" || true)" 0
  ;;
esac
