# Our target serves whole drives, confined as far as its transport allows. A host connects afterwards, does I/O and
# reads the drives' SMART data; adding a further drive is refused. Parameters: nqn, transport.
modprobe -a nvme ata_piix sd_mod loop
within 20 test -b /dev/nvme0n1
within 20 test -b /dev/sda
log=/mnt/host/target-confined-$transport.log
export NVMEOF_SOCKET=/run/confined.sock
truncate -s 16M /var/tmp/outside
outside=$(losetup --find --show /var/tmp/outside)
case $transport in
verbs)
  addr=$host4
  run=(/mnt/host/nvmeof target --transport verbs)
  if "${run[@]}" --listen "$addr" --nqn "$nqn" --sandbox on --export mem:1MiB --allow-any-host >"$log" 2>&1; then die "files were confined over verbs"; fi
  grep -q 'files are not confined: with Landlock the kernel denies' "$log" || die "$(cat "$log")"
  sandbox=auto
  want='"system calls":"filtered"'
  ;;
softroce)
  addr=$peer4
  run=(ip netns exec peer /mnt/host/nvmeof target)
  sandbox=on
  want='"system calls":"filtered","files":\[.*"/dev/nvme0n1"'
  ;;
esac
setsid "${run[@]}" --listen "$addr" --nqn "$nqn" --sandbox $sandbox --socket "$NVMEOF_SOCKET" \
  --export /dev/nvme0n1 --export /dev/sda --allow-any-host </dev/null >"$log" 2>&1 &
pid=$!
within 60 grep -q 'nvme connect' "$log"
grep -q '"msg":"sandbox".*'"$want" "$log" || die "the target is not confined: $(cat "$log")"
for _ in 1 2; do # the second pass checks that the first left nothing behind
  nvme connect -t rdma -a "$addr" -s 4420 -n "$nqn" -i 4
  within 20 controller_live "$nqn"
  for nsid in 1 2; do
    within 20 block_device "$nqn" $nsid
    dev=$(block_device "$nqn" $nsid)
    head -c 8M /dev/urandom >/tmp/data
    dd if=/tmp/data of="$dev" bs=64k oflag=direct conv=fsync status=none
    dd if="$dev" of=/tmp/back bs=128k count=64 iflag=direct status=none
    cmp /tmp/data /tmp/back
  done
  smart=$(nvme smart-log "/dev/$(controller "$nqn")")
  nvme disconnect -n "$nqn"
done
note "$(grep -i '^temperature' <<<"$smart" | head -1)"
# QEMU's NVMe drive reports 50 degrees, its ATA disk 31; a controller reports the highest.
grep -qE '^temperature.* 50 ' <<<"$smart" || die "$smart"
if [[ $sandbox == on ]]; then
  if /mnt/host/nvmeof namespace add 3 --block "$outside" -n "$nqn" 2>/tmp/refused; then die "a device outside of the sandbox was added"; fi
  grep -q 'outside the target.s sandbox' /tmp/refused || die "$(cat /tmp/refused)"
fi
kill -TERM "$pid"
gone() { ! kill -0 "$pid"; }
within 15 gone
losetup -d "$outside"
! grep -nE '^(panic|fatal error|goroutine [0-9]+)' "$log" || die "the target crashed"
