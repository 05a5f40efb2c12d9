# The kernel's host authenticates with the target, and uses both of its queues. Parameters: nqn, addr, host, hostnqn,
# hostid, secret, ctrl_secret (may be empty), hash, group.
secrets=(--dhchap-secret "$secret")
[[ -z $ctrl_secret ]] || secrets+=(--dhchap-ctrl-secret "$ctrl_secret")
before=$(dmesg | grep -c 'controller authenticated' || true)
began=$(now_ms)
nvme connect -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i 1 -c 2 --hostnqn "$hostnqn" --hostid "$hostid" "${secrets[@]}"
within 30 controller_live "$nqn"
took=$(($(now_ms) - began))
within 20 block_device "$nqn" 1
dd if="$(block_device "$nqn" 1)" of=/dev/null bs=4k count=4 iflag=direct status=none
want "what the kernel says" "$(dmesg | grep -o 'authenticated with hash .*' | tail -1)" "authenticated with hash hmac($hash) dhgroup $group"
proofs=$(($(dmesg | grep -c 'controller authenticated' || true) - before))
[[ -z $ctrl_secret ]] || ((proofs > 0)) || die "the kernel did not authenticate the controller"
note "connected in $took ms"
nvme disconnect -n "$nqn"
