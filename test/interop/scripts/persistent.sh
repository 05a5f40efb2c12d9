# Runs a persistent discovery controller, which stays connected and is notified of changes. Parameters: action (start,
# told, stop), addr, host.
discovery=nqn.2014-08.org.nvmexpress.discovery
events=/tmp/discovery.events
case $action in
start)
  setsid udevadm monitor --kernel --property --subsystem-match=nvme </dev/null >"$events" 2>&1 &
  nvme discover -q "$NVME_HOSTNQN" -I "$hostid" -t rdma -a "$addr" -s 4420 -w "$host" -p -k 30 >/dev/null
  within 10 controller_live "$discovery"
  c=$(controller "$discovery")
  want "its keep alive timeout" "$(<"/sys/class/nvme/$c/kato")" 30
  ;;
told) # AEN type 2 (notice), information F0h, log page 70h
  within 10 grep -q 'NVME_AEN=0x70f002' "$events"
  : >"$events"
  ;;
stop)
  killall -q udevadm || true
  nvme disconnect -n "$discovery"
  ;;
esac
