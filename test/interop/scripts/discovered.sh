# Checks the discovery log. Parameters: addr, host, options (of nvme discover), has, lacks (expressions over a record:
# some record, and no record, must match; empty: no check).
# shellcheck disable=SC2086
nvme discover -q "$NVME_HOSTNQN" -I "$hostid" -t rdma -a "$addr" -s 4420 -w "$host" $options -o json >discovered.json
find_record() { jq -e ".records | map(select($1)) | length > 0" discovered.json >/dev/null; }
[[ -z $has ]] || find_record "$has" || die "no record with $has: $(<discovered.json)"
[[ -z $lacks ]] || ! find_record "$lacks" || die "a record with $lacks: $(<discovered.json)"
