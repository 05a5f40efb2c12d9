# Runs nvmeof doctor on this machine. Parameters: rxe (yes, no: whether rxe0 exists). The program nvmeof is a build
# without verbs, nvmeof-verbs one with verbs.
report() { # COMMAND...: sets status; the report is in doctor.json
  status=0
  "$@" -o json >doctor.json 2>doctor.err || status=$?
  jq -e . doctor.json >/dev/null || die "no JSON: $(<doctor.err)"
}
field() { jq -rc "$1" doctor.json; }
address() { field "[.transports[] | select(.address == \"$1\") | .auto, .works] | map(tostring) | join(\" \")"; }

if [[ $rxe == no ]]; then
  for program in nvmeof nvmeof-verbs; do
    report "$program" doctor
    want "$program: exit status" "$status" 0
    want "$program: devices" "$(field '.devices | length')" 0
    want "$program: 127.0.0.1" "$(address 127.0.0.1)" "softroce true"
    want "$program: holders of the port" "$(field '.roce_port | length')" 0
    want "$program: rdma_rxe" "$(field '.modules[] | select(.name == "rdma_rxe").state')" available
  done
  want "libraries" "$(field .build.libraries)" loaded
  exit
fi

nvmeof-verbs doctor
report nvmeof-verbs doctor
want "exit status" "$status" 0
want "device" "$(field '.devices[0] | [.name, .driver, .provider, .transport, .node_type] | join(" ")')" "rxe0 rdma_rxe rxe RoCE CA"
want "port" "$(field '.devices[0].ports[0] | "\(.state) \(.link_layer) \(.active_mtu) \(.netdevs[0])"')" "ACTIVE Ethernet 1024 host0"
want "GID of the address" "$(field ".devices[0].ports[0].gids[] | select(.address == \"$host4\").type")" "RoCE v2"
ibv_devinfo -v -d rxe0 >devinfo.txt
info() { awk -v key="$1:" '$1 == key { print $2 }' devinfo.txt; }
for pair in queue_pairs=max_qp queue_depth=max_qp_wr memory_regions=max_mr shared_receive_queues=max_srq reads_in=max_qp_rd_atom \
  reads_out=max_qp_init_rd_atom memory_windows=max_mw completions=max_cqe; do
  want "limit ${pair%=*}" "$(field ".devices[0].limits.${pair%=*}")" "$(info "${pair#*=}")"
done
want "$host4" "$(address "$host4")" "verbs true"
want "127.0.0.1" "$(address 127.0.0.1)" "softroce false"
want "holder of the port" "$(field '[.roce_port[].holder] | unique | join(" ")')" kernel
want "modules" "$(field '[.modules[] | select(.name == "rdma_rxe" or .name == "ib_uverbs" or .name == "rdma_ucm").state] | unique | join(" ")')" loaded

# Without verbs our program cannot work beside rxe, except in another network namespace.
report nvmeof doctor
want "exit status without verbs" "$status" 1
want "works without verbs" "$(field .works)" false
grep -q 'no transport works' doctor.err || die "no reason: $(<doctor.err)"
report ip netns exec peer nvmeof doctor
want "exit status in the namespace" "$status" 0
want "$peer4" "$(address "$peer4")" "softroce true"

# The report to root names our target as the holder of the port; to other users the holder is unknown.
ip netns exec peer nvmeof target --listen "$peer4" --nqn nqn.2026-01.org.example:doctor --export mem:16MiB --allow-any-host >target.out 2>&1 &
pid=$!
within 20 grep -q 'nvme connect' target.out
report ip netns exec peer nvmeof doctor
want "holder" "$(field '.roce_port[] | "\(.address) \(.holder) \(.pid) \(.program)"')" "$peer4 process $pid nvmeof"
want "$peer4, which is taken" "$(address "$peer4")" "softroce false"
nobody=(ip netns exec peer setpriv --reuid=65534 --regid=65534 --clear-groups)
report "${nobody[@]}" nvmeof doctor
want "holder, to nobody" "$(field '.roce_port[] | "\(.address) \(.holder)"')" "$peer4 unknown"
[[ $(field '.unread | length') -gt 0 ]] || die "nobody reads everything?"
want "receive buffer of nobody" "$(field .sockets.receive_buffer)" $((2 * $(field .sockets.rmem_max)))
kill -TERM "$pid"
wait "$pid"
