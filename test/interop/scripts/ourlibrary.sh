# The commands of our host's library, at the peer's end of the same guest, against the
# kernel's target. Parameters: nqn, addr, host, has (names of checks that must be ok,
# ";" after each).
library --host "$host" --addr "$addr" --nqn "$nqn" | tee library.txt
if [[ -e /sys/kernel/config/nvmet/subsystems/$nqn/namespaces/1/resv_enable ]]; then
  has+="reservations;"
else
  note "the target of $(uname -r) has no reservations: Linux has them since 6.13"
fi
while read -rd';' name; do
  grep -qx "$name: ok" library.txt || die "$name is not ok"
done <<<"$has"
