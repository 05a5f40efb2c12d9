# Our host writes, reads back and compares on a link that may lose packets. Parameters: nqn, addr, host, provider,
# windows, seconds (of each size), more (further options of our host).
for size in 512 16k 64k; do
  nvmeof bench -t rdma -a "$addr" -s 4420 -w "$host" --provider "$provider" --windows "$windows" -n "$nqn" -i 2 $more --rw randwrite --bs $size --iodepth 8 \
    --size 4MiB --time_based --runtime "${seconds}s" --ramp-time 0s --verify -o json >bench.json
  note "$size: $(jq -r '.jobs[0].write.iops | floor' bench.json) writes/s, verified"
done
