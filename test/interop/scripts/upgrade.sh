# Upgrades the package under load. Parameters: package, number (its version).
trap 'journalctl --no-pager -o cat -u nvmeof-target | tail -n 40 >&2' ERR
before=$(systemctl show -P MainPID nvmeof-target)
began=$(now_ms)
dpkg -i "/mnt/host/${package}_${number}"_*.deb </dev/null
note "$package $number: $(($(now_ms) - began)) ms"
want version "$(dpkg-query -W -f '${Version}' "$package")" "$number"
want unit "$(systemctl is-active nvmeof-target) $(systemctl is-enabled nvmeof-target)" "active enabled"
[[ $(systemctl show -P MainPID nvmeof-target) != "$before" ]] || die "the old version still runs"
want program "$(readlink "/proc/$(systemctl show -P MainPID nvmeof-target)/exe")" /usr/bin/nvmeof
cmp /tmp/configuration /etc/nvmeof/target.yaml
[[ ! -s /tmp/load.status ]] || die "the load has ended before"
