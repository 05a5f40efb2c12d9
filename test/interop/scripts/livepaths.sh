# Waits until the subsystem has want live paths. Parameters: nqn, want.
live() {
  local c n=0
  for c in /sys/class/nvme/nvme*; do
    [[ $(<"$c/subsysnqn") == "$nqn" && $(<"$c/state") == live ]] && n=$((n + 1))
  done
  ((n == want))
}
within 40 live
