# Tests our host, at the peer's end, with a target. Parameters: nqn, addr, host, family, bytes (of the namespace),
# provider, windows.
at=(-t rdma -a "$addr" -s 4420 -w "$host" --provider "$provider" --windows "$windows")
[[ $provider != auto ]] || nvmeof discover "${at[@]}" 2>&1 >/dev/null | grep '^transport verbs: '
nvmeof discover "${at[@]}" | tee discover.txt
nvmeof discover "${at[@]}" -o json >discover.json
record=$(jq -c --arg nqn "$nqn" '.records[] | select(.subnqn == $nqn)' discover.json)
[[ -n $record ]] || die "the discovery log lacks $nqn: $(<discover.json)"
field() { jq -r ".$1" <<<"$record"; }
want trtype "$(field trtype)" rdma
want adrfam "$(field adrfam)" "$family"
want traddr "$(field traddr)" "$addr"
want trsvcid "$(field trsvcid)" 4420

at+=(-n "$nqn")
nvmeof list "${at[@]}" | tee list.txt
want subnqn "$(nvmeof id-ctrl "${at[@]}" -o json | jq -r .subnqn)" "$nqn"
want "bytes of the namespace" $(($(nvmeof id-ns "${at[@]}" -o json | jq .nsze) * 512)) "$bytes"

# One command of each size. The bytes are compared outside of our program.
head -c 1048576 /dev/urandom >pattern
round_trip() { # BYTES BLOCK
  local blocks=(--start-block "$2" --block-count $(($1 / 512 - 1)) --data-size "$1")
  head -c "$1" pattern >out.data
  nvmeof write "${at[@]}" "${blocks[@]}" --data out.data
  nvmeof read "${at[@]}" "${blocks[@]}" --data in.data
  cmp out.data in.data || die "$1 bytes at block $2 came back changed"
}
for size in 512 4096 8192 65536 131072 1048576; do round_trip $size $((size / 128)); done
nvmeof flush "${at[@]}"
if out=$(nvmeof read "${at[@]}" --start-block $((bytes / 512)) --block-count 0 --data-size 512 2>&1); then
  die "a read past the end succeeded"
fi

# Other commands that our program can send to a controller.
while read -r command; do
  nvmeof $command "${at[@]}" >answer.txt || die "nvmeof $command: $(<answer.txt)"
  [[ -s answer.txt ]] || die "nvmeof $command says nothing"
done <<'END_OF_COMMANDS'
smart-log -H
error-log -e 4 -o json
ana-log
ana-log --groups -o json
effects-log --csi 0 -H
fw-log
changed-ns-list-log
list-ns
ns-descs
get-feature -f 7 -H
get-log --log-id 2 --log-len 512
show-regs -H
get-property -O 8
set-feature -f 0x0f -V 5000
write-zeroes --start-block 8 --block-count 7
END_OF_COMMANDS

# Many commands at a time, written and read back.
for size in 512 4k 64k 1M; do
  nvmeof bench "${at[@]}" -i 2 --rw randwrite --bs $size --iodepth 8 --size 16MiB --time_based --runtime 2s --ramp-time 0s --verify -o json >bench.json
  note "$size: $(jq -r '.jobs[0].write.iops | floor' bench.json) writes/s, verified"
done
