# Runs one of the two targets that TestVerbsBench compares, on this machine's rxe. Both serve the same file or block
# device. Parameters: action (prepare; start, stop), contender (nvmeof, nvmet), storage (file, block), nqn, addr,
# options (further options of our target).
files=/srv/bench
case ${storage:-} in
file) namespace=$files/namespace export=$namespace,bs=4096 ;;
block) namespace=/dev/ram1 export=$namespace ;;
esac
cfs=/sys/kernel/config/nvmet
port=$cfs/ports/1
subsystem=$cfs/subsystems/$nqn
log=/mnt/host/contender.log
pidfile=/run/contender.pid

# prepare makes a file of 128 MiB on a RAM disk, and another RAM disk. Both are written in advance as far as fio
# reaches. It also starts the meter: it answers each datagram with this machine's uptime and the first line of
# /proc/stat, at almost no cost.
prepare() {
  modprobe brd rd_nr=2 rd_size=262144 # KiB
  modprobe -a nvmet nvmet-rdma
  mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/ram0 240M
  mkdir -p "$files"
  mount /dev/ram0 "$files"
  head -c 128M /dev/urandom >"$files/namespace"
  head -c 128M /dev/urandom >/dev/ram1
  sync
  cp /mnt/host/nvmeof /usr/local/bin/
  setsid perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new(LocalPort => 7007, Proto => "udp") or die $!;
    sub first { open(my $f, "<", $_[0]) or die; my $l = <$f>; chomp $l; $l }
    while (defined $s->recv(my $m, 64)) { $s->send(first("/proc/uptime") . " " . first("/proc/stat")); }
  ' </dev/null >/dev/null 2>&1 &
}

start_nvmeof() {
  : >"$log"
  setsid nvmeof target --transport verbs --listen "$addr" --nqn "$nqn" --export "$export" --allow-any-host $options </dev/null >>"$log" 2>&1 &
  echo $! >"$pidfile"
  within 20 grep -q 'nvme connect' "$log"
}
stop_nvmeof() {
  builtin kill -TERM "$(<"$pidfile")"
  gone() { ! builtin kill -0 "$(<"$pidfile")"; }
  within 15 gone
}

start_nvmet() {
  mkdir "$subsystem"
  echo 1 >"$subsystem/attr_allow_any_host"
  mkdir "$subsystem/namespaces/1"
  echo -n "$namespace" >"$subsystem/namespaces/1/device_path"
  echo 1 >"$subsystem/namespaces/1/enable"
  mkdir "$port"
  echo rdma >"$port/addr_trtype"
  echo ipv4 >"$port/addr_adrfam"
  echo "$addr" >"$port/addr_traddr"
  echo 4420 >"$port/addr_trsvcid"
  ln -s "$subsystem" "$port/subsystems/"
}
stop_nvmet() {
  rm -f "$port"/subsystems/*
  rmdir "$port"
  echo 0 >"$subsystem/namespaces/1/enable"
  rmdir "$subsystem/namespaces/1" "$subsystem"
}
case $action in
prepare) prepare ;;
*) "${action}_$contender" ;;
esac
