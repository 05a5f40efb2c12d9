# Tests two hosts with one namespace. Linux would join their paths to one device, so commands go to the controllers.
# Parameters: nqn, addr, host, step ("before" ends with a reservation that must survive the target's death, "after"
# finds it).
uuid_a=aaaaaaaa-0000-4000-8000-00000000000a uuid_b=bbbbbbbb-0000-4000-8000-00000000000b
host_nqn() { echo "nqn.2014-08.org.nvmexpress:uuid:$1"; }
# of UUID: prints the host's controller once it is live.
of() {
  local c
  for c in /sys/class/nvme/nvme*; do
    [[ $(<"$c/subsysnqn") == "$nqn" && $(<"$c/hostnqn") == "$(host_nqn "$1")" && $(<"$c/state") == live ]] &&
      { echo "/dev/${c##*/}"; return; }
  done
  return 1
}
attach() {
  nvme connect -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i 1 -q "$(host_nqn "$1")" -I "$1"
  within 20 of "$1"
}
io() { # CONTROLLER OPCODE: one block, read or written
  local way=--read
  [[ $2 == 1 ]] && way=--write
  nvme io-passthru "$1" --opcode="$2" --namespace-id=1 --data-len=512 $way --input-file=block.data >/dev/null
}
head -c 512 /dev/urandom >block.data
conflict() {
  local out
  if out=$("$@" 2>&1); then die "succeeded in spite of the reservation: $*"; fi
  grep -qiE 'conflict|\(?0x4?083' <<<"$out" || die "$*: $out"
}
report() { nvme resv-report "$1" -n 1 --eds -o json; } # CONTROLLER
wait_device() { within 20 nvme id-ns "$1" -n 1; }

if [[ $step == before ]]; then
  attach $uuid_a
  attach $uuid_b
  A=$(of $uuid_a) B=$(of $uuid_b)
  note "a is $A, b is $B"
  wait_device "$A"; wait_device "$B"
  nvme resv-register "$A" -n 1 --nrkey=0xa1 --rrega=0
  nvme resv-register "$B" -n 1 --nrkey=0xb2 --rrega=0
  conflict nvme resv-acquire "$B" -n 1 --crkey=0xa1 --rtype=1 --racqa=0
  nvme resv-acquire "$A" -n 1 --crkey=0xa1 --rtype=1 --racqa=0 # write exclusive
  io "$A" 1
  io "$A" 2
  io "$B" 2
  conflict io "$B" 1
  conflict nvme resv-acquire "$B" -n 1 --crkey=0xb2 --rtype=1 --racqa=0
  report "$B" >report.json
  want rtype "$(jq .rtype report.json)" 1
  want regctl "$(jq .regctl report.json)" 2
  # Host b preempts a with exclusive access; a is no longer a registrant.
  nvme resv-acquire "$B" -n 1 --crkey=0xb2 --prkey=0xa1 --rtype=2 --racqa=2
  io "$B" 1
  conflict io "$A" 2
  report "$B" >report.json
  want rtype "$(jq .rtype report.json)" 2
  want regctl "$(jq .regctl report.json)" 1
  nvme resv-notif-log "$A" -o json >log.json
  grep -qE '[1-9]' log.json || die "a was not told: $(<log.json)"
  nvme get-feature "$A" -f 0x82 -n 1
  nvme resv-release "$B" -n 1 --crkey=0xb2 --rtype=2 --rrela=0
  io "$A" 1
  # A reservation that survives: with persistence, write exclusive, held by b.
  nvme resv-register "$B" -n 1 --crkey=0xb2 --nrkey=0xb3 --rrega=2 --cptpl=3
  nvme resv-acquire "$B" -n 1 --crkey=0xb3 --rtype=1 --racqa=0
  want "persistence" "$(report "$B" | jq .ptpls)" 1
  nvme disconnect -n "$nqn"
else
  attach $uuid_a
  attach $uuid_b
  A=$(of $uuid_a) B=$(of $uuid_b)
  wait_device "$A"; wait_device "$B"
  report "$A" >report.json
  want rtype "$(jq .rtype report.json)" 1
  want persistence "$(jq .ptpls report.json)" 1
  conflict io "$A" 1
  io "$A" 2
  io "$B" 1
  nvme resv-release "$B" -n 1 --crkey=0xb3 --rrela=1 # clears all
  io "$A" 1
  nvme disconnect -n "$nqn"
fi
