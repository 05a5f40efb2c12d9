# Runs the commands of our host's library, at the peer's end, against the kernel's target. Parameters: nqn, addr, host,
# provider, has (names of checks that must be ok, ";" after each).
library --transport "$provider" --host "$host" --addr "$addr" --nqn "$nqn" | tee library.txt
if [[ $(printf '%s\n' 6.13 "$(uname -r)" | sort -V | head -1) == 6.13 ]]; then # the guest's kernel is the target's too
  has+="reservations;"
else
  note "the target of $(uname -r) has no reservations: Linux has them since 6.13"
fi
while read -rd';' name; do
  grep -qx "$name: ok" library.txt || die "$name is not ok"
done <<<"$has"
