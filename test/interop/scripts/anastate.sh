# Waits until the host knows an ANA state. Parameters: nqn, addr, port, state, nsid.
known() {
  local c p
  for c in /sys/class/nvme/nvme*; do
    [[ $(<"$c/subsysnqn") == "$nqn" && $(<"$c/address") == *traddr="$addr",trsvcid="$port"* ]] || continue
    for p in "$c"/nvme*c*n*; do
      [[ $(<"$p/nsid") == "$nsid" && $(<"$p/ana_state") == "$state" ]] && return
    done
  done
  return 1
}
within 20 known
