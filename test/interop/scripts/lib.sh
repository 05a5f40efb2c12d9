# Sourced before every script in a guest: names, addresses and helpers.
set -euo pipefail
export PATH=/usr/local/bin:$PATH # where the programs under test are installed
shopt -s nullglob
export PATH=/usr/local/bin:$PATH
export NVME_HOSTNQN=nqn.2014-08.org.nvmexpress:uuid:6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01
hostid=6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01

# The two ends of the link. The kernel's rxe is on host0, in the guest's first network namespace; the program under test
# uses peer0.
host4=10.9.0.2 peer4=10.9.0.1
host6=fd09::2 peer6=fd09::1

die() { echo "FAIL: $*" >&2; exit 1; }
note() { echo "# $*"; }

# want WHAT GOT WANT: fails unless both texts are equal.
want() { [[ $2 == "$3" ]] || die "$1 is '$2', want '$3'"; }

# within SECONDS COMMAND...: repeats a command until it succeeds; fails after SECONDS.
within() {
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "not within its time: $*"
    sleep 0.1
  done
}

# now_ms: milliseconds since the guest booted, on the clock that dmesg prints.
now_ms() { local up; read -r up _ </proc/uptime; echo $((10#${up/./} * 10)); }

# addressed DEVICE IPV4 IPV6 MTU: sets a device up.
addressed() {
  ip link set "$1" mtu "$4" up
  ip addr replace "$2/24" dev "$1"
  ip -6 addr replace "$3/64" dev "$1" nodad
}

# controller NQN: the name of the controller, such as "nvme0"; fails if there is none.
controller() {
  local c
  for c in /sys/class/nvme/nvme*; do
    [[ $(<"$c/subsysnqn") == "$1" ]] && { basename "$c"; return; }
  done
  return 1
}
# controller_live NQN: whether the controller is live.
controller_live() { local c; c=$(controller "$1") && [[ $(<"/sys/class/nvme/$c/state") == live ]]; }

# block_device NQN NSID: "/dev/nvme0n1", also where multipath hides the path's own device.
block_device() {
  local s n
  for s in /sys/class/nvme-subsystem/nvme-subsys*; do
    [[ $(<"$s/subsysnqn") == "$1" ]] || continue
    for n in "$s"/nvme*n*; do
      [[ -e $n/nsid && $(<"$n/nsid") == "$2" && -b /dev/${n##*/} ]] && { echo "/dev/${n##*/}"; return; }
    done
  done
  return 1
}
