# The kernel's host is refused by the target, or refuses it. Parameters: nqn, addr, host, hostnqn, hostid, secret,
# ctrl_secret (both may be empty).
secrets=()
[[ -z $secret ]] || secrets+=(--dhchap-secret "$secret")
[[ -z $ctrl_secret ]] || secrets+=(--dhchap-ctrl-secret "$ctrl_secret")
before=$(dmesg | wc -l)
if nvme connect -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i 1 --hostnqn "$hostnqn" --hostid "$hostid" "${secrets[@]}"; then
  die "the host connected"
fi
! controller "$nqn" || die "a controller is left"
note "$(dmesg | tail -n +$((before + 1)) | grep -E 'auth|qid' | tail -1)"
