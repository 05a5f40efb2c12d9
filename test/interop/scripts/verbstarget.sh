# Our target is on rxe0's address, with the kernel's host beside it: connect, write, read back, disconnect. Parameters:
# nqn, transport.
log=/mnt/host/target-$transport.log
setsid /mnt/host/nvmeof target --transport "$transport" --listen "$host4" --nqn "$nqn" --export mem:64MiB --allow-any-host \
  </dev/null >"$log" 2>&1 &
pid=$!
within 60 grep -q 'nvme connect' "$log"
grep -q '"\?verbs' "$log" || die "the target does not say that it uses verbs"
nvme connect -t rdma -a "$host4" -s 4420 -n "$nqn" -i 2
within 20 controller_live "$nqn"
within 20 block_device "$nqn" 1
dev=$(block_device "$nqn" 1)
head -c 8M /dev/urandom >/tmp/data
dd if=/tmp/data of="$dev" bs=64k oflag=direct status=none
dd if="$dev" of=/tmp/back bs=128k count=64 iflag=direct status=none
cmp /tmp/data /tmp/back
fio --name=v --filename="$dev" --rw=randrw --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --size=8M --verify=crc32c --runtime=5 --output=/tmp/fio.out || die "$(cat /tmp/fio.out)"
nvme disconnect -n "$nqn"
kill -TERM "$pid"
gone() { ! kill -0 "$pid"; }
within 15 gone
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
note "$(grep -o 'transport.*' "$log" | head -1)"
