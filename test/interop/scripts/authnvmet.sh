# Our host, at the peer's end, authenticates with the kernel's target. Parameters: nqn,
# addr, host, hash, group, secret, ctrl_secret, wrong (another key).
cfs=/sys/kernel/config/nvmet
entry=$cfs/hosts/$NVME_HOSTNQN
if [[ ! -d $entry ]]; then
  mkdir "$entry"
  echo 0 >"$cfs/subsystems/$nqn/attr_allow_any_host"
  ln -s "$entry" "$cfs/subsystems/$nqn/allowed_hosts/"
fi
echo "$secret" >"$entry/dhchap_key"
echo "$ctrl_secret" >"$entry/dhchap_ctrl_key"
echo "hmac($hash)" >"$entry/dhchap_hash"
echo "$group" >"$entry/dhchap_dhgroup"
at=(-t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -q "$NVME_HOSTNQN")
readback() { nvmeof read "${at[@]}" --start-block 0 --block-count 7 --data-size 4096 --data in.data "$@"; }
began=$(now_ms)
readback -S "$secret"
one=$(($(now_ms) - began))
readback -S "$secret" -C "$ctrl_secret"
note "connected, read and left in $one ms, with both keys in $(($(now_ms) - began - one)) ms"
[[ -n $wrong ]] || exit 0
refused() { # TEXT OPTIONS...
  local text=$1 out; shift
  if out=$(readback "$@" 2>&1); then die "connected with $*"; fi
  grep -q -- "$text" <<<"$out" || die "our host says '$out', want '$text'"
}
refused "requires authentication"
# Linux may close the connection before our host has read its AUTH_Failure1.
refused "the target refuses this host: authentication failed\|ended the connection during authentication" -S "$wrong"
refused "this host refuses the target: authentication failed" -S "$secret" -C "$wrong"
