# Makes a network namespace "client" with a link to the peer's namespace, by which client reaches the peer's address.
# Parameters: action (make; cut: drops all packets in both directions; mend: ends that), host, addr.
case $action in
make)
  ip netns add client
  ip link add client0 type veth peer name client1
  ip link set client1 netns client
  ip addr add "${host%.*}.1/24" dev client0
  ip link set client0 mtu 1500 up
  ip -n client link set lo up
  ip -n client addr add "$host/24" dev client1
  ip -n client link set client1 mtu 1500 up
  ip -n client route add "$addr/32" via "${host%.*}.1"
  ;;
cut)
  tc qdisc add dev client0 root netem loss 100%
  tc -n client qdisc add dev client1 root netem loss 100%
  ;;
mend)
  tc qdisc del dev client0 root
  tc -n client qdisc del dev client1 root
  ;;
esac
