# With one guest: a veth pair whose other end is in the namespace "peer". With two guests: each has an interface eth*,
# which is renamed to host0 or peer0. Parameters: role (both, host, peer), mtu, rxe (whether this end's device gets an
# rxe device, which Linux 6.12 offers only in the first namespace).
modprobe -a nvme-rdma rdma_rxe rdma_cm ib_uverbs rdma_ucm sch_netem
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 kernel.panic_on_oops=0
case $role in
both)
  if [[ ! -e /sys/class/net/host0 ]]; then
    ip netns add peer
    ip link add host0 type veth peer name peer0 netns peer
    ip -n peer link set lo up
  fi
  addressed host0 "$host4" "$host6" "$mtu"
  ip -n peer link set peer0 mtu "$mtu" up
  ip -n peer addr replace "$peer4/24" dev peer0
  ip -n peer -6 addr replace "$peer6/64" dev peer0 nodad
  dev=host0
  ;;
*)
  modprobe virtio_net
  dev=${role}0
  if [[ ! -e /sys/class/net/$dev ]]; then
    within 10 compgen -G '/sys/class/net/e*'
    found=(/sys/class/net/e*)
    ip link set "${found[0]##*/}" name "$dev"
  fi
  v4=${role}4 v6=${role}6
  addressed "$dev" "${!v4}" "${!v6}" "$mtu"
  ;;
esac
[[ -e /sys/class/infiniband/rxe0 ]] || rdma link add rxe0 type rxe netdev "$dev"
within 5 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
ip -br addr show dev "$dev"
