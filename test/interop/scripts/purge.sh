# Purges what is left of nvmeof. That must not remove anything of nvmeof-verbs, which has replaced it.
dpkg --purge nvmeof
want unit "$(systemctl is-active nvmeof-target) $(systemctl is-enabled nvmeof-target)" "active enabled"
cmp /tmp/configuration /etc/nvmeof/target.yaml
[[ -d /var/lib/nvmeof ]] || die "the state is gone"

dpkg -r nvmeof-verbs
want "the unit after the removal" "$(systemctl is-active nvmeof-target || true)" inactive
cmp /tmp/configuration /etc/nvmeof/target.yaml
dpkg --purge nvmeof-verbs
for path in /usr/bin/nvmeof /etc/nvmeof/target.yaml /etc/needrestart /var/lib/nvmeof /run/nvmeof /usr/lib/systemd/system/nvmeof* \
  /etc/systemd/system/multi-user.target.wants/nvmeof* /usr/share/doc/nvmeof* /usr/share/man/man1/nvmeof*; do
  [[ ! -e $path && ! -L $path ]] || die "$path is left"
done
for path in /etc/nvmeof/keys/host.key /srv/nvmeof/disk.img; do
  want "owner of $path" "$(stat -c %U "$path")" nvmeof
done
