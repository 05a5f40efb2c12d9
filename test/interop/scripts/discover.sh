# Checks the subsystem's discovery log entry. Parameters: nqn, addr, host, family.
nvme discover -t rdma -a "$addr" -s 4420 -w "$host" | tee discover.txt
nvme discover -t rdma -a "$addr" -s 4420 -w "$host" -o json >discover.json
record=$(jq -c --arg nqn "$nqn" '.records[] | select(.subnqn == $nqn)' discover.json)
[[ -n $record ]] || die "the discovery log lacks $nqn: $(<discover.json)"
field() { jq -r ".$1" <<<"$record"; }
want trtype "$(field trtype)" rdma
want adrfam "$(field adrfam)" "$family"
want traddr "$(field traddr)" "$addr"
want trsvcid "$(field trsvcid)" 4420
want rdma_cms "$(field rdma_cms)" rdma-cm
