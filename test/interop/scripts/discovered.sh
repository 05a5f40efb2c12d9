# What the discovery log has. Parameters: addr, host, options (how to get there),
# has, lacks (expressions over a record; empty: none).
# shellcheck disable=SC2086
nvme discover -q "$NVME_HOSTNQN" -I "$hostid" -t rdma -a "$addr" -s 4420 -w "$host" $options -o json >discovered.json
find_record() { jq -e ".records | map(select($1)) | length > 0" discovered.json >/dev/null; }
[[ -z $has ]] || find_record "$has" || die "no record with $has: $(<discovered.json)"
[[ -z $lacks ]] || ! find_record "$lacks" || die "a record with $lacks: $(<discovered.json)"
