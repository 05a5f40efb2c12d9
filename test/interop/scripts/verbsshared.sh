# Our target is on rxe0's address with receives that its I/O queues share, fewer than they have entries. The kernel's
# host is beside it. Parameters: nqn.
log=/mnt/host/target-shared.log
setsid nvmeof target --transport verbs --listen "$host4" --nqn "$nqn" --export mem:64MiB --allow-any-host --shards 1 --shared-receives 64 \
  </dev/null >"$log" 2>&1 &
pid=$!
within 60 grep -q 'nvme connect' "$log"
nvme connect -t rdma -a "$host4" -s 4420 -n "$nqn" -i 4
within 20 controller_live "$nqn"
within 20 block_device "$nqn" 1
dev=$(block_device "$nqn" 1)
head -c 8M /dev/urandom >/tmp/data
dd if=/tmp/data of="$dev" bs=64k oflag=direct status=none
dd if="$dev" of=/tmp/back bs=128k count=64 iflag=direct status=none
cmp /tmp/data /tmp/back
fio --name=v --filename="$dev" --rw=randrw --bs=512-64k --iodepth=8 --numjobs=4 --offset_increment=8M --ioengine=libaio --direct=1 --size=4M \
  --verify=crc32c --output=/tmp/fio.out || die "$(cat /tmp/fio.out)"
nvme reset "/dev/$(controller "$nqn")" # the receives of the old queues are returned
within 20 controller_live "$nqn"
dd if="$dev" of=/dev/null bs=4k count=256 iflag=direct status=none
nvme disconnect -n "$nqn"
kill -TERM "$pid"
gone() { ! kill -0 "$pid"; }
within 15 gone
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
note "$(grep -c 'host connected' "$log") connections"
