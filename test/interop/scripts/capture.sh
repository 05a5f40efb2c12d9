# Records what host0 sends and receives. Sent packets are taken before the interface's queueing discipline, so that the
# capture includes packets that netem drops. Parameters: action (start, stop), file (below /mnt/host), snap (bytes kept
# of each packet).
start() {
  if [[ ! -e /sys/class/net/tap0 ]]; then
    ip link add tap0 type dummy
    ip link set tap0 mtu 65535 up
    tc qdisc add dev host0 clsact
    tc filter add dev host0 egress matchall action mirred egress mirror dev tap0
    tc filter add dev host0 ingress matchall action mirred egress mirror dev tap0
  fi
  setsid tcpdump -i tap0 -n -B 16384 -s "$snap" -w /tmp/capture.pcap udp port 4791 </dev/null >/tmp/tcpdump.log 2>&1 &
  echo $! >/run/tcpdump.pid
  within 60 grep -q 'listening on' /tmp/tcpdump.log
}
stop() {
  local pid
  pid=$(</run/tcpdump.pid)
  kill -INT "$pid"
  within 10 bash -c "! kill -0 $pid"
  cp /tmp/capture.pcap "/mnt/host/$file"
  note "$(grep -E 'captured|dropped by kernel' /tmp/tcpdump.log | paste -sd,)"
}
"$action"
