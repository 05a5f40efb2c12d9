# Our host publishes a namespace of a target by NBD; fio's nbd engine and the kernel's nbd driver use it. Parameters:
# nqn, addr, host, provider, windows, bytes (of the namespace), inside (a command that runs our host, as a prefix of its
# command line; empty: none), freed (the namespace's file in /root, whose blocks a trim must free; empty: no check).
socket=/run/attach.sock log=/mnt/host/attach.log
exec > >(tee "$log") 2>&1 # keeps the output if the script exceeds its time
at=(-t rdma -a "$addr" -s 4420 -w "$host" --provider "$provider" --windows "$windows" -n "$nqn" --socket "$socket")
# A socket as a killed server leaves it.
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "'$socket'", Listen => 1) or die'
[[ -S $socket ]] || die "no socket to replace"
$inside nvmeof attach "${at[@]}" >attach.out 2>&1 &
attached=$!
trap 'cat attach.out; nbd-client -d /dev/nbd0 >/dev/null 2>&1 || true; kill $attached 2>/dev/null || true' EXIT
within 60 grep -q nbd+unix attach.out
want "mode of the socket" "$(stat -c %a "$socket")" 600
! $inside nvmeof attach "${at[@]}" >second.out 2>&1 || die "a second server took the socket"
grep -q "another process" second.out || die "a live socket: $(<second.out)"

uri="nbd+unix:///1?socket=$socket"
for load in "512 1 128k" "4k 16 2M" "128k 4 8M" "1M 2 8M"; do
  read -r size depth all <<<"$load"
  fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bs="$size" --iodepth="$depth" --size="$all" \
    --verify=crc32c --verify_fatal=1 --output-format=terse --terse-version=3 >fio.out || { cat fio.out; die "fio with $size"; }
  note "fio, $size at a time: verified, at $SECONDS s"
done

modprobe nbd
nbd-client -nonetlink -unix "$socket" -N 1 /dev/nbd0
want "bytes of /dev/nbd0" "$(blockdev --getsize64 /dev/nbd0)" "$bytes"
for load in "4k 16 1M" "128k 4 4M"; do
  read -r size depth all <<<"$load"
  fio --name=verify --filename=/dev/nbd0 --ioengine=libaio --direct=1 --rw=randwrite --bs="$size" --iodepth="$depth" --size="$all" \
    --verify=crc32c --verify_fatal=1 --output-format=terse --terse-version=3 >fio.out || { cat fio.out; die "fio on /dev/nbd0 with $size"; }
  note "fio on /dev/nbd0, $size at a time: verified, at $SECONDS s"
done
note "discard_max_bytes $(</sys/block/nbd0/queue/discard_max_bytes), fua $(</sys/block/nbd0/queue/fua), $(</sys/block/nbd0/queue/write_cache)"
mkfs.ext4 -q -F /dev/nbd0
mkdir -p /tmp/attached
mount /dev/nbd0 /tmp/attached
cp -a /etc /usr/lib/udev /tmp/attached/
(cd /tmp/attached && find . -type f -print0 | sort -z | xargs -0 sha256sum) >attached.sum
if [[ -n $freed ]]; then
  dd if=/dev/urandom of=/tmp/attached/junk bs=1M count=32 conv=fsync status=none
  rm /tmp/attached/junk
  sync -f /tmp/attached
  before=$(stat -c %b "/root/$freed")
fi
fstrim -v /tmp/attached || note "no trim"
if [[ -n $freed ]]; then
  trimmed=$(((before - $(stat -c %b "/root/$freed")) / 2048))
  note "the trim freed $trimmed MiB in the target's file"
  ((trimmed >= 30)) || die "32 MiB were removed"
fi
umount /tmp/attached
nbd-client -d /dev/nbd0
within 10 bash -c '! nbd-client -c /dev/nbd0'

# Another connection (two sockets, -C 2) sees what the first one wrote.
nbd-client -nonetlink -unix "$socket" -N 1 -C 2 /dev/nbd0
fsck.ext4 -fn /dev/nbd0
mount /dev/nbd0 /tmp/attached
(cd /tmp/attached && sha256sum --quiet -c "$OLDPWD/attached.sum")
note "$(wc -l <attached.sum) files"
umount /tmp/attached
nbd-client -d /dev/nbd0

builtin kill -TERM $attached
status=0
wait $attached || status=$?
trap - EXIT
cat attach.out
want "status of attach" "$status" 0
note "$(grep 'nbd: clients:' attach.out)"
[[ ! -e $socket ]] || die "the socket is still there"
