# Checks nvme-cli's lists and Identify data. Parameters: nqn, bytes (of namespace 1).
c=/dev/$(controller "$nqn") dev=$(block_device "$nqn" 1)
nvme list
nvme list -o json >list.json
jq -e --arg dev "$dev" '[.. | strings] | any(. == $dev or . == ($dev | sub("/dev/"; "")))' list.json >/dev/null ||
  die "nvme list lacks $dev: $(<list.json)"

nvme id-ctrl "$c"
nvme id-ctrl "$c" -o json >ctrl.json
want subnqn "$(jq -r .subnqn ctrl.json)" "$nqn"
want "keyed SGL support" "$(jq '(.sgls / 4 | floor) % 2' ctrl.json)" 1
[[ $(jq -r .sn ctrl.json) =~ [^[:space:]] ]] || die "the serial number is blank"
[[ $(jq -r .mn ctrl.json) =~ [^[:space:]] ]] || die "the model is blank"

nvme id-ns "$dev"
nvme id-ns "$dev" -o json >ns.json
block=$(blockdev --getss "$dev") size=$(blockdev --getsize64 "$dev")
want "nsze x block size" "$(($(jq .nsze ns.json) * block))" "$size"
want "size" "$size" "$bytes"
