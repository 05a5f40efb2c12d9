# Sends one command at a time by nvme-cli, each with the result that it must have. Parameters: nqn, past_end (a regular
# expression that the refusal of a read past the end matches).
dev=$(block_device "$nqn" 1)
head -c 65536 /dev/urandom >pattern
read_back() { rm -f in.data; nvme read "$dev" -s "$1" -c "$2" -z "$3" -d in.data; }
round_trip() { # BYTES BLOCK
  local blocks=$(($1 / 512 - 1))
  head -c "$1" pattern >out.data
  nvme write "$dev" -s "$2" -c "$blocks" -z "$1" -d out.data
  read_back "$2" "$blocks" "$1"
  cmp out.data in.data || die "$1 bytes at block $2 came back changed"
}
want "logical block" "$(blockdev --getss "$dev")" 512
round_trip 4096 0
round_trip 512 100
round_trip 65536 1024
nvme flush "$dev"

nvme write-zeroes "$dev" -s 1024 -c 63
read_back 1024 127 65536
{ head -c 32768 /dev/zero; tail -c 32768 pattern; } | cmp - in.data || die "write zeroes missed its range"
nvme dsm "$dev" -s 0 -b 8 -d
read_back 0 7 4096

end=$(blockdev --getsz "$dev")
if out=$(nvme read "$dev" -s "$end" -c 0 -z 512 -d in.data 2>&1); then die "a read past the end succeeded"; fi
grep -qE "$past_end" <<<"$out" || die "read past the end: $out"
nvme smart-log "$dev" >/dev/null
