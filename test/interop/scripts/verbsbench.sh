# Measures a target from the Linux host: fio runs here, the processor time is the target's. Parameters: action (connect,
# disconnect; load, idle), nqn, addr; of a load: name, rw, depth, seconds. A load prints
#
#   RESULT BUSY IDLE I/OS SECONDS P50 P99
#
# in seconds of the target's machine, and latencies in us. idle prints IDLE and the share of the processor that the
# target uses with nothing to do.

# meter prints uptime and the fields of /proc/stat's first line, at the target.
meter() {
  perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => 7007, Proto => "udp") or die $!;
    $s->send("?"); $s->recv(my $m, 512); print "$m\n"' "$addr"
}

connect() {
  nvme connect -t rdma -a "$addr" -s 4420 -n "$nqn" -i 1
  within 20 controller_live "$nqn"
  within 20 block_device "$nqn" 1
}
disconnect() { nvme disconnect -n "$nqn"; }

load() {
  meter >meter.txt
  fio --name="$name" --filename="$(block_device "$nqn" 1)" --ioengine=libaio --direct=1 --rw="$rw" --bs=4k --iodepth="$depth" \
    --size=128M --time_based --runtime="$seconds" --randrepeat=0 --norandommap --output-format=json --output=fio.json
  meter >>meter.txt
  # The meter prints uptime and the idle time of all processors, then cpu, user, nice, system, idle, iowait, ...
  jq -r --rawfile meter meter.txt '
    ($meter | split("\n")[:2] | map(split(" ") | map(select(. != "")))) as [$a, $b]
    | ((($b[6] | tonumber) + ($b[7] | tonumber) - ($a[6] | tonumber) - ($a[7] | tonumber)) / 100) as $idle
    | (($b[0] | tonumber) - ($a[0] | tonumber)) as $wall
    | .jobs[0] | select(.error == 0)
    | (if .read.total_ios > 0 then .read else .write end) as $d
    | "RESULT \($wall - $idle) \($idle) \($d.total_ios) \($d.runtime / 1000) \($d.clat_ns.percentile["50.000000"] / 1000) \($d.clat_ns.percentile["99.000000"] / 1000)"' fio.json
}

idle() {
  sleep 0.2
  { meter; sleep 2; meter; } >meter.txt
  awk 'NR == 1 { up = $1; idle = $7 + $8 } NR == 2 { printf "IDLE %.4f\n", 1 - ($7 + $8 - idle) / 100 / ($1 - up) }' meter.txt
}
"$action"
