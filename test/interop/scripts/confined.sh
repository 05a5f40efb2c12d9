# Our target over verbs, confined, with whole drives: a host that comes when it is, I/O, SMART
# data of the drives, a drive that is added, and one that is refused. Parameters: nqn.
modprobe -a nvme ata_piix sd_mod loop
within 20 test -b /dev/nvme0n1
within 20 test -b /dev/sda
log=/mnt/host/target-confined.log
export NVMEOF_SOCKET=/run/confined.sock
truncate -s 16M /var/tmp/outside
outside=$(losetup --find --show /var/tmp/outside)
setsid /mnt/host/nvmeof target --transport verbs --listen "$host4" --nqn "$nqn" --sandbox on --socket "$NVMEOF_SOCKET" \
  --export /dev/nvme0n1 --export /dev/sda --allow-any-host </dev/null >"$log" 2>&1 &
pid=$!
within 60 grep -q 'nvme connect' "$log"
grep -q '"msg":"sandbox".*"system calls":"filtered","files":\[.*"/dev/nvme0n1"' "$log" || die "the target is not confined: $(cat "$log")"
for _ in 1 2; do # the second one finds nothing that the first one left
  nvme connect -t rdma -a "$host4" -s 4420 -n "$nqn" -i 4
  within 20 controller_live "$nqn"
  for nsid in 1 2; do
    within 20 block_device "$nqn" $nsid
    dev=$(block_device "$nqn" $nsid)
    head -c 8M /dev/urandom >/tmp/data
    dd if=/tmp/data of="$dev" bs=64k oflag=direct conv=fsync status=none
    dd if="$dev" of=/tmp/back bs=128k count=64 iflag=direct status=none
    cmp /tmp/data /tmp/back
    blkdiscard -f -o 8M -l 1M "$dev" 2>/dev/null || true
  done
  smart=$(nvme smart-log "/dev/$(controller "$nqn")")
  nvme disconnect -n "$nqn"
done
note "$(grep -i '^temperature' <<<"$smart")"
# QEMU's NVMe drive has 50 degrees, its ATA disk 31; a controller has the highest.
grep -qE '^temperature.* 50 ' <<<"$smart" || die "$smart"
if /mnt/host/nvmeof namespace add 3 --block "$outside" -n "$nqn" 2>/tmp/refused; then die "a device outside of the sandbox was added"; fi
grep -q 'outside of the sandbox' /tmp/refused || die "$(cat /tmp/refused)"
kill -TERM "$pid"
gone() { ! kill -0 "$pid"; }
within 15 gone
losetup -d "$outside"
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
grep -v '"level":"info"' "$log" | tail -n 5
