# The connected kernel host gets new keys and authenticates again. Parameters: action (connect; key, ctrl_key: sets a
# new key, which starts authentication; reset; back: the target was restarted; disconnect), nqn, addr, host, hostnqn,
# hostid, secret, ctrl_secret.
times() { dmesg | grep -c 'authenticated with hash' || true; }
again() { # COMMAND...: runs it, and waits until the kernel has authenticated once more
  local before=${before:-$(times)}
  "$@"
  more() { (($(times) > before)); }
  within 30 more
  within 30 controller_live "$nqn"
}
io() { dd if=/dev/urandom of="$(block_device "$nqn" 1)" bs=64k count=16 oflag=direct status=none; }
change() { # ATTRIBUTE SECRET
  echo "$2" >"/sys/class/nvme/$(controller "$nqn")/$1"
}
case $action in
connect)
  again nvme connect -t rdma -a "$addr" -s 4420 -w "$host" -n "$nqn" -i 2 -c 2 --hostnqn "$hostnqn" --hostid "$hostid" \
    --dhchap-secret "$secret" --dhchap-ctrl-secret "$ctrl_secret"
  within 20 block_device "$nqn" 1
  ;;
key) again change dhchap_secret "$secret" ;;
ctrl_key) again change dhchap_ctrl_secret "$ctrl_secret" ;;
reset) again nvme reset "/dev/$(controller "$nqn")" ;;
back) # authentication may have begun before this script
  before=$(</tmp/authenticated)
  again io
  ;;
disconnect) nvme disconnect -n "$nqn"; exit ;;
esac
io
times >/tmp/authenticated
