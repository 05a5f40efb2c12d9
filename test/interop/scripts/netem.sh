# Impairs what one interface sends. Parameters: device, delay and impair (arguments of netem), filter (none: no
# impairment; all; not-sends: RC SENDs are only delayed, everything else is impaired too).
modprobe -a sch_netem sch_prio cls_u32
tc qdisc del dev "$device" root 2>/dev/null || true
case $filter in
none) ;;
all) tc qdisc add dev "$device" root netem limit 100000 $delay $impair ;;
not-sends)
  # Band 1 is for RC SENDs (opcodes 00 to 05, 16 and 17, byte 0 of the BTH, which
  # is byte 28 of an IPv4 packet), band 2 for the rest.
  tc qdisc add dev "$device" root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
  tc qdisc add dev "$device" parent 1:1 netem limit 100000 $delay
  tc qdisc add dev "$device" parent 1:2 netem limit 100000 $delay $impair
  for opcode in '0x00 0xfc' '0x04 0xfe' '0x16 0xfe'; do
    tc filter add dev "$device" parent 1: protocol ip prio 1 u32 match u8 0x11 0xff at 9 \
      match u16 4791 0xffff at 22 match u8 $opcode at 28 flowid 1:1
  done
  ;;
esac
tc -s qdisc show dev "$device"
