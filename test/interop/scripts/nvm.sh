# Tests the NVM command set other than reads and writes, one command at a time. Parameters: nqn, block (bytes of a
# block).
dev=$(block_device "$nqn" 1)
c=/dev/$(controller "$nqn")
want "logical block" "$(blockdev --getss "$dev")" "$block"
per=$((65536 / block)) # blocks of 64 KiB
last=$((per - 1))
head -c 65536 /dev/urandom >pattern
head -c 65536 /dev/urandom >other
read_back() { rm -f in.data; nvme read "$dev" -s "$1" -c "$last" -z 65536 -d in.data; } # BLOCK
# refused TEXT COMMAND...: the command must fail, and print TEXT.
refused() {
  local text=$1 out; shift
  if out=$("$@" 2>&1); then die "succeeded: $*"; fi
  grep -qiE "$text" <<<"$out" || die "$*: $out"
}
nvme id-ctrl "$c" -o json >ctrl.json
oncs=$(jq .oncs ctrl.json)
for bit in 0 2 3 5 7 8; do # Compare, DSM, Write Zeroes, reservations, Verify, Copy
  (((oncs >> bit) & 1)) || die "ONCS $oncs lacks bit $bit"
done
want FUSES "$(jq .fuses ctrl.json)" 1
want MSDBD "$(jq .msdbd ctrl.json)" 16
nvme id-ns "$dev" -o json >ns.json
(($(jq .mssrl ns.json) > 0 && $(jq .mcl ns.json) > 0)) || die "no limits of Copy: $(<ns.json)"
effects=$(nvme effects-log "$c" -o json)
grep -qi '0*19\|copy' <<<"$effects" || die "the effects log lacks Copy: $effects"

nvme write "$dev" -s 0 -c "$last" -z 65536 -d pattern
nvme compare "$dev" -s 0 -c "$last" -z 65536 -d pattern
refused "compare" nvme compare "$dev" -s 0 -c "$last" -z 65536 -d other
nvme verify "$dev" -s 0 -c "$last"
refused "LBA" nvme verify "$dev" -s "$(blockdev --getsize64 "$dev")" -c 0

# Copy: the two halves of the pattern are exchanged.
half=$((per / 2))
nvme copy "$dev" --sdlba=$((4 * per)) --slbs=$half,0 --blocks=$((half - 1)),$((half - 1))
read_back $((4 * per))
{ tail -c 32768 pattern; head -c 32768 pattern; } | cmp - in.data || die "copy put other bytes there"

nvme write-zeroes "$dev" -s 0 -c $((half - 1))
read_back 0
{ head -c 32768 /dev/zero; tail -c 32768 pattern; } | cmp - in.data || die "write zeroes missed its range"
nvme write-zeroes "$dev" -s $half -c $((half - 1)) --deac
read_back 0
head -c 65536 /dev/zero | cmp - in.data || die "write zeroes with deallocation missed its range"
nvme write "$dev" -s 0 -c "$last" -z 65536 -d pattern
nvme dsm "$dev" -s 0,$half -b $half,1 --ad
nvme dsm "$dev" -s 0 -b 1 --idr --idw # hints only
read_back 0
cmp -i $((32768 + block)) pattern in.data || die "deallocation changed blocks outside its ranges"
nvme flush "$dev"
