# Runs inside the guest. It reads requests from the virtio port, one a line: "NUMBER SECONDS". It runs
# /mnt/host/run/NUMBER.sh for at most that long and sends the output as it comes; then it sends a line of 0x1e, NUMBER
# and the exit status. The request "save" makes the guest ready to be saved, which a line of number -1 reports. The next
# line is the current time, which a guest gets when it starts from the saved state. End of input, when the test process
# has ended, ends the guest.
set -m # each job is a process group, which can be killed as a whole

# leave_share unmounts the shared directory: a guest that resumes has another one in its place. It fails if it cannot,
# or if the kernel has logged a complaint, which would be in the log of every guest that starts from this state.
leave_share() {
  cd / && umount /mnt/host && sync && ! dmesg | grep -qE 'BUG|WARNING|Oops|Call Trace'
}

# resume TIME gives a resumed guest its time and shared directory. It fails if the kernel was not told that the machine
# is new, which gives it new random numbers.
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
  # QEMU's emulation can run a stale breakpoint while the kernel patches its own code, which panics the kernel. So the
  # guest boots with one CPU and gets the others now.
  for cpu in /sys/devices/system/cpu/cpu[1-9]*; do echo 1 >"$cpu/online"; done
  for port in /dev/vport*; do exec 3<>"$port"; done
  printf '\x1e0 0\n' >&3
fi

while read -r number seconds <&3; do
  if [[ $number == save ]]; then # exec a copy: the shared directory is unmounted
    cp /mnt/host/agent.sh /run/agent.sh
    exec bash /run/agent.sh saved
  fi
  cd /tmp
  (
    # Before a script that hangs is killed, the console gets a list of blocked tasks.
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
