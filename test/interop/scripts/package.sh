# Installs and starts the Debian package. Parameters: nqn, addr. /mnt/host has nvmeof_1_*.deb, nvmeof_2_*.deb and
# nvmeof-verbs_3_*.deb.
tell() { echo "line $1"; journalctl --no-pager -o cat -u nvmeof-target | tail -n 40; systemctl --no-pager status nvmeof-target | head -30; }
trap 'tell $LINENO >&2' ERR
version() { dpkg-query -W -f '${Version}' "$1"; }

dpkg -i /mnt/host/nvmeof_1_*.deb
want "the unit after an installation" "$(systemctl is-active nvmeof-target || true) $(systemctl is-enabled nvmeof-target || true)" "inactive disabled"
want "owner of the configuration" "$(stat -c '%U %a' /etc/nvmeof /etc/nvmeof/target.yaml /srv/nvmeof | tr '\n' ' ')" "nvmeof 700 nvmeof 600 nvmeof 700 "
nvmeof target check /etc/nvmeof/target.yaml
installed() { nvmeof doctor -o json 2>/dev/null | jq -r ".installed | $1"; }
want "what doctor says" "$(installed '"\(.how) \(.package) \(.version) \(.example)"' || true)" "package nvmeof 1 same"
nvmeof completion bash | cmp - /usr/share/bash-completion/completions/nvmeof

# The steps of an administrator: a configuration, a key, a drop-in, and a start. The drop-in is needed here because the
# kernel's rxe uses UDP port 4791 in the first network namespace.
cat >/etc/nvmeof/target.yaml <<END_OF_FILE
version: 1
sandbox: {paths: [/srv/nvmeof, /etc/nvmeof]}
listeners: [{id: 1, address: $addr}]
subsystems:
  - nqn: $nqn
    hosts: [{nqn: $NVME_HOSTNQN}]
    namespaces:
      - {nsid: 1, file: {path: /srv/nvmeof/disk.img, size: 32MiB}}
END_OF_FILE
install -D -o nvmeof -g nvmeof -m 600 /dev/null /etc/nvmeof/keys/host.key
mkdir -p /etc/systemd/system/nvmeof-target.service.d
printf '[Service]\nNetworkNamespacePath=/run/netns/peer\n' >/etc/systemd/system/nvmeof-target.service.d/peer.conf
cp /etc/nvmeof/target.yaml /tmp/configuration
echo "$NVME_HOSTNQN" >/etc/nvme/hostnqn
echo "$hostid" >/etc/nvme/hostid
systemctl daemon-reload
systemctl enable --now nvmeof-target
want "what doctor says" "$(installed '"\(.example) \(.units[0].name) \(.units[0].running) \(.units[0].enabled)"' || true)" "changed nvmeof-target.service true true"
note "version $(version nvmeof) runs"
