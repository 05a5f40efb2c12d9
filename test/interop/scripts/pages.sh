# Records what nvme-cli shows of a target with two namespaces. Each command's output is in NAME.out, its error output in
# NAME.err and its status in NAME.rc; the test compares them. Parameters: nqn, features (identifiers of two hexadecimal
# digits, of which all values are read), unknown_features (only the current value is read), unknown_logs (log pages).
dir=/mnt/host/pages
rm -rf "$dir"
mkdir "$dir"
c=/dev/$(controller "$nqn")
# The kernel accepts I/O commands on the controller's device only while there is one namespace.
a=$(block_device "$nqn" 1) b=$(block_device "$nqn" 2)
# page NAME COMMAND...: records the answer, also if the command fails.
page() {
  local name=$1 rc=0; shift
  nvme "$@" >"$dir/$name.out" 2>"$dir/$name.err" || rc=$?
  echo "$rc" >"$dir/$name.rc"
}
json() { page "$@" -o json; }
smart() { # WHEN: records the controller's page and each namespace's
  json "smart-$1" smart-log "$c"
  json "smart-$1-1" smart-log "$c" -n 1
  json "smart-$1-2" smart-log "$c" -n 2
}
# io NAME DEVICE NSID OPCODE LBA BYTES
io() {
  local way=--read
  [[ $4 != 1 ]] || way=--write
  head -c "$6" /dev/zero >block.data
  page "$1" io-passthru "$2" --namespace-id="$3" --opcode="$4" --cdw10="$5" --data-len="$6" $way --input-file=block.data
}
readonly_is() { [[ $(blockdev --getro "$a") == "$1" ]]; }
feature() { # NAME FID SELECT
  local nsid=0 more=
  case $2 in 82 | 83 | 84) nsid=1 ;; 81) more=--cdw11=1 ;; esac
  json "$1" get-feature "$c" -f "0x$2" -n $nsid -s "$3" $more
}
settled() { udevadm settle --timeout=10 || true; } # udev reads a device after it was open for writing

settled
json id-ctrl id-ctrl "$c"
json nvm-id-ctrl nvm-id-ctrl "$c"
json id-iocs id-iocs "$c"
for n in 1 2 3; do
  json "id-ns-$n" id-ns "$c" -n $n
  json "allocated-$n" id-ns "$c" -n $n --force
  json "nvm-id-ns-$n" nvm-id-ns "$c" -n $n
  json "independent-$n" cmdset-ind-id-ns "$c" -n $n
  json "descriptors-$n" ns-descs "$c" -n $n
  json "list-ctrl-$n" list-ctrl "$c" -n $n
done
json list-ctrl list-ctrl "$c"
json list-ns list-ns "$c"
json list-ns-from-2 list-ns "$c" -n 2
json list-ns-all list-ns "$c" -a
json list-ns-nvm list-ns "$c" -y 0
json list-subsys list-subsys
json list list
json list-v list -v
json registers show-regs "$c"
page crto get-property "$c" -O 0x68
for n in 1 2; do
  (cd "/sys/block/$(basename "$(block_device "$nqn" $n)")" && cat nsid uuid nguid) >"$dir/sysfs-$n.out"
done

json fw-log fw-log "$c"
json effects effects-log "$c"
json supported supported-log-pages "$c"
json features fid-support-effects-log "$c"
json management mi-cmd-support-effects-log "$c"
page events-early persistent-event-log "$c" --action=0 --log_len=4096
page events persistent-event-log "$c" --action=1 --log_len=4096 # not as JSON: nvme-cli issue 2809
page events-release persistent-event-log "$c" --action=2
json ana ana-log "$c"
json ana-groups ana-log "$c" -g
json changed changed-ns-list-log "$c"
for lid in $unknown_logs; do
  page "log-$lid" get-log "$c" --log-id="0x$lid" --log-len=512
done
for fid in $features; do
  for select in 0 1 2 3; do feature "feature-$fid-$select" "$fid" $select; done
done
for fid in $unknown_features; do feature "feature-$fid" "$fid" 0; done

smart idle
dd if=/dev/zero of="$a" bs=64k count=128 oflag=direct status=none
dd if=/dev/zero of="$b" bs=64k count=64 oflag=direct status=none
settled
smart written
# The target counts a file's allocated blocks in its periodic examination, not while a host waits.
used_is() { [[ $(nvme id-ns "$c" -n "$1" -o json | jq .nuse) == "$2" ]]; }
within 20 used_is 2 1024
json used-1 id-ns "$c" -n 1
json used-2 id-ns "$c" -n 2
dd if="$a" of=/dev/null bs=64k count=128 iflag=direct status=none
dd if="$b" of=/dev/null bs=64k count=64 iflag=direct status=none
smart read

# Errors: the log has the newest entry first.
io past-a "$a" 1 2 0x12345678 512
io past-b "$b" 2 2 0x89abcdef 4096
io unknown "$a" 1 0x7e 0 512
json errors error-log "$c" -e 3
page errors-raw error-log "$c" -e 3 -b
smart errors

# Changes features, and records the effects.
page limit-set set-feature "$c" -f 0x04 --value=298
feature limit-got 04 0
json smart-limit smart-log "$c"
page limit-back set-feature "$c" -f 0x04 --value=299
page cache-on set-feature "$c" -f 0x06 --value=1
page cache-off set-feature "$c" -f 0x06 --value=0
feature cache-got 06 0
page cache-back set-feature "$c" -f 0x06 --value=1
feature cache-again 06 0
page saved set-feature "$c" -f 0x06 --value=1 --save

page protect set-feature "$c" -f 0x84 -n 1 --value=1
feature protect-got 84 0
json protect-other get-feature "$c" -f 0x84 -n 2
json protect-ns id-ns "$c" -n 1
json protect-independent cmdset-ind-id-ns "$c" -n 1
io protect-write "$a" 1 1 0 512
io protect-read "$a" 1 2 0 512
io protect-elsewhere "$b" 2 1 0 4096
within 20 readonly_is 1
page unprotect set-feature "$c" -f 0x84 -n 1 --value=0
within 20 readonly_is 0
io unprotect-write "$a" 1 1 0 512

# Reservations, with one host.
json resv-none resv-report "$a" --eds
page resv-register resv-register "$a" --nrkey=0xa1 --rrega=0
page resv-acquire resv-acquire "$a" --crkey=0xa1 --rtype=3 --racqa=0
json resv-held resv-report "$a" --eds
page resv-release resv-release "$a" --crkey=0xa1 --rtype=3 --rrela=0
page resv-gone resv-register "$a" --crkey=0xa1 --rrega=1
json resv-after resv-report "$a" --eds
json resv-notif resv-notif-log "$c"

# What a reset clears, and what it keeps.
page rescan ns-rescan "$c"
page reset-limit set-feature "$c" -f 0x04 --value=400
page reset-marker set-feature "$c" -f 0x80 --value=5
page reset reset "$c"
within 20 controller_live "$nqn"
json reset-id id-ctrl "$c"
json reset-errors error-log "$c" -e 1
feature reset-limit-got 04 0
feature reset-marker-got 80 0
within 20 readonly_is 0
note "$(find "$dir" -name '*.rc' | wc -l) commands"
