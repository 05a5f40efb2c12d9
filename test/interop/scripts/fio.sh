# Writes and reads at random, with verification. Parameters: nqn, blocks (range of block sizes), depth, jobs, size (of
# each job, MiB).
dev=$(block_device "$nqn" 1)
fio --name=verify --filename="$dev" --ioengine=libaio --direct=1 --rw=randrw --bsrange="$blocks" \
  --iodepth="$depth" --numjobs="$jobs" --size="${size}M" --offset_increment="${size}M" \
  --verify=crc32c --verify_fatal=1 --verify_async=0 --group_reporting --output-format=normal,json --output=fio.out ||
  { cp fio.out /mnt/host/fio.out; cat fio.out; grep -E '^(fio|verify|nvme|[a-z]+: (Laying|bad|got|verify))|err=' fio.out | head -20; die "fio failed"; }
sed -n '/^{/,/^}/p' fio.out | jq -r '.jobs[] | "# errors \(.error), read \(.read.io_kbytes) KiB, written \(.write.io_kbytes) KiB, \(.job_runtime / 1000 | floor) s of jobs"'
sed -n '/^{/,/^}/p' fio.out | jq -e '[.jobs[].error] | add == 0' >/dev/null || die "fio counted errors"
# Each retransmission may cost rdma_rxe its queue pair, since it repeats a fast registration.
note "the host sent again $(cat /sys/class/infiniband/*/ports/1/hw_counters/completer_retry_err) times since it booted"
