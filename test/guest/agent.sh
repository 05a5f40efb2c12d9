# Runs inside the guest: takes one request a line, "NUMBER SECONDS", from the
# virtio port, runs /mnt/host/run/NUMBER.sh for at most that long, sends what it
# prints as it comes, and ends with a line of 0x1e, NUMBER and exit status.
# "save" makes the guest ready to be saved, which the line of number -1 says; the
# next line is then the time, at the guest's start from what was saved.
# End of input, when the test process is gone, ends the guest.
set -m # each job is a process group, to be killed whole

# leave_share lets go of the shared directory, which another has in its place when the
# guest goes on, and fails if it cannot, or if the kernel has complained, which each
# guest that starts from here would have in its log.
leave_share() {
  cd / && umount /mnt/host && sync && ! dmesg | grep -qE 'BUG|WARNING|Oops|Call Trace'
}

# resume TIME makes a guest of its own of one that was saved: it fails where the kernel
# has not been told of a new machine, which gives it new random numbers.
resume() {
  date -s "@$1" >/dev/null
  mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 host /mnt/host
  for _ in {1..50}; do
    dmesg | grep -q 'crng reseeded due to virtual machine fork' && return
    sleep 0.1
  done
  return 1
}

if [[ $1 == saved ]]; then
  leave_share
  printf '\x1e-1 %s\n' "$?" >&3
  read -r now <&3
  resume "$now"
  printf '\x1e0 %s\n' "$?" >&3
else
  # QEMU's emulation can run a stale breakpoint while the kernel patches its own
  # code, which panics it, so the guest boots on one CPU and gets the others now.
  for cpu in /sys/devices/system/cpu/cpu[1-9]*; do echo 1 >"$cpu/online"; done
  for port in /dev/vport*; do exec 3<>"$port"; done
  printf '\x1e0 0\n' >&3
fi

while read -r number seconds <&3; do
  if [[ $number == save ]]; then # not by the script in the directory that is left
    cp /mnt/host/agent.sh /run/agent.sh
    exec bash /run/agent.sh saved
  fi
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
