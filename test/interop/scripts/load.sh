# Runs fio in the background. Parameters: action (start, finish), nqn, limit (seconds), mib (default 16).
start() {
  dev=$(block_device "$nqn" 1)
  rm -f /tmp/load.status
  setsid bash -c "fio --name=load --filename=$dev --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --iodepth=8 \
    --size=${mib:-16}M --rate_iops=250 --verify=crc32c --verify_fatal=1 --output=/tmp/load.out; echo \$? >/tmp/load.status" \
    </dev/null >/dev/null 2>&1 &
  within 10 grep -q . "/sys/block/${dev##*/}/stat"
}
finish() {
  within "$limit" test -s /tmp/load.status
  sed -n 's/^ *\(read\|write\): /# \1 /p; s/^ *\(clat (.*\)/# \1/p' /tmp/load.out
  [[ $(</tmp/load.status) == 0 ]] || { cat /tmp/load.out; die "fio failed"; }
}
"$action"
