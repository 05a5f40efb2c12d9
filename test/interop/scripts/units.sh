# Runs the systemd units of deploy. Parameters: nqn.
# The setup that deploy/README.md describes.
tell() { echo "line $1"; journalctl --no-pager -o cat -u 'nvmeof-*' | tail -n 60; systemctl --no-pager status 'nvmeof-*' | head -60; }
trap 'tell $LINENO >&2' ERR
useradd --system --home-dir /srv/nvmeof --create-home nvmeof
install -d -o nvmeof -g nvmeof -m 700 /etc/nvmeof
cp /mnt/host/*.service /etc/systemd/system/
ip link set lo up
nvmeof gen-dhchap-key >/etc/nvmeof/host.key
chown nvmeof:nvmeof /etc/nvmeof/host.key
chmod 600 /etc/nvmeof/host.key
cat >/etc/nvmeof/target.yaml <<END
version: 1
sandbox: {paths: [/srv/nvmeof, /etc/nvmeof]}
listeners: [{id: 1, address: 127.0.0.1}]
subsystems:
  - nqn: $nqn
    state: /srv/nvmeof/state
    hosts: [{nqn: $NVME_HOSTNQN, key-file: /etc/nvmeof/host.key}]
    namespaces:
      - {nsid: 1, file: {path: /srv/nvmeof/disk.img, size: 16MiB}, reservations: /srv/nvmeof/disk.resv}
END
chown nvmeof:nvmeof /etc/nvmeof/target.yaml
systemctl daemon-reload
for unit in nvmeof-target nvmeof-connect@x nvmeof-attach@x; do
  systemd-analyze security --no-pager --threshold=20 $unit.service | tail -1
done

systemctl start nvmeof-target
note "$(journalctl --no-pager -o cat -u nvmeof-target | grep '"sandbox"')"
journalctl --no-pager -o cat -u nvmeof-target | grep -q '"msg":"sandbox".*"system calls":"filtered","files":\[.*"/srv/nvmeof"' || die "the target is not confined"
export NVMEOF_SOCKET=/run/nvmeof/target.sock
nvmeof namespace add 2 --file /srv/nvmeof/second.img --size 8MiB -n "$nqn" --save
grep -q second.img /etc/nvmeof/target.yaml || die "--save did not save"
if nvmeof namespace add 3 --file /var/tmp/third.img --size 8MiB -n "$nqn" 2>/tmp/refused; then die "a file outside of the sandbox was added"; fi
grep -q 'outside the target.s sandbox' /tmp/refused || die "$(cat /tmp/refused)"
systemctl reload nvmeof-target
nvmeof ls

# A connection, with a key that only root can read.
install -d -m 700 /etc/nvmeof/connect /etc/nvme
install -m 600 /etc/nvmeof/host.key /etc/nvme/host.key
echo "CONNECT=connect -t rdma -a 127.0.0.1 -n $nqn --hostnqn $NVME_HOSTNQN --hostid $hostid --dhchap-secret file:/etc/nvme/host.key" >/etc/nvmeof/connect/storage
systemctl start nvmeof-connect@storage
within 20 test -S /run/nvmeof-host/nvme0n1.sock
nvmeof list-subsys
qemu-io -f raw -c 'write -P 0x5a 0 1M' -c 'read -P 0x5a 0 1M' 'nbd+unix:///nvme0n1?socket=/run/nvmeof-host/nvme0n1.sock'
systemctl stop nvmeof-connect@storage

# The same by attach, as an ordinary user. The endpoint of the first connection has ended.
install -o nvmeof -m 600 /etc/nvme/host.key /etc/nvmeof/attach.key
echo "ATTACH=-a 127.0.0.1 -n $nqn --hostnqn $NVME_HOSTNQN --hostid $hostid --dhchap-secret file:/etc/nvmeof/attach.key" >/etc/nvmeof/attach-data.conf
systemctl start nvmeof-attach@data
within 20 test -S /run/nvmeof-attach-data/disk.sock
qemu-io -f raw -c 'read -P 0x5a 0 1M' 'nbd+unix:///1?socket=/run/nvmeof-attach-data/disk.sock'
systemctl stop nvmeof-attach@data
systemctl stop nvmeof-target
for unit in nvmeof-target nvmeof-connect@storage nvmeof-attach@data; do
  want "result of $unit" "$(systemctl show -P Result $unit)" success
  want "restarts of $unit" "$(systemctl show -P NRestarts $unit)" 0
done
journalctl --no-pager -o cat -u 'nvmeof-*' | grep -i 'denied\|not permitted' && die "something was denied"
note units did their work
