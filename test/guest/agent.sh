# Runs inside the guest: takes one request a line, "NUMBER SECONDS", from the
# virtio port, runs /mnt/host/run/NUMBER.sh for at most that long, sends what it
# prints as it comes, and ends with a line of 0x1e, NUMBER and exit status.
# End of input, when the test process is gone, ends the guest.
set -m # each job is a process group, to be killed whole
# QEMU's emulation can run a stale breakpoint while the kernel patches its own
# code, which panics it, so the guest boots on one CPU and gets the others now.
for cpu in /sys/devices/system/cpu/cpu[1-9]*; do echo 1 >"$cpu/online"; done

for port in /dev/vport*; do exec 3<>"$port"; done
printf '\x1e0 0\n' >&3
while read -r number seconds <&3; do
  cd /tmp
  (
    # A script that hangs tells where, on the console, before it is killed.
    sleep "$((seconds - 1))"
    echo w >/proc/sysrq-trigger
  ) </dev/null >/dev/null 2>&1 3>&- &
  watch=$!
  timeout -k 5 "$seconds" bash "/mnt/host/run/$number.sh" </dev/null >&3 2>&1 3>&-
  status=$?
  kill -- "-$watch" 2>/dev/null
  wait "$watch" 2>/dev/null
  printf '\n\x1e%s %s\n' "$number" "$status" >&3
done
