# Resets the controller under load; I/O must wait and go on. Parameters: nqn.
c=$(controller "$nqn") dev=$(block_device "$nqn" 1)
fio --name=reset --filename="$dev" --ioengine=libaio --direct=1 --rw=randrw --bsrange=512-64k --iodepth=8 \
  --size=16M --loops=1000 --time_based --runtime=8 --verify=crc32c --verify_fatal=1 --output=fio.out &
load=$!
for i in 1 2 3; do
  sleep 2
  nvme reset "/dev/$c"
  within 20 controller_live "$nqn"
  note "reset $i done"
done
wait "$load" || { cat fio.out; die "fio failed across resets"; }
want "queue count after resets" "$(<"/sys/class/nvme/$c/queue_count")" 5
