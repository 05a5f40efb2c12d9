#!/usr/bin/env bash
# Makes top.png: nvmeof top beside a target under load, as a terminal shows it. Takes tmux, aha
# and chromium.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mktemp -d /tmp/top.XXX)
trap 'kill $(jobs -p) 2>/dev/null; tmux -S "$dir/tmux" kill-server 2>/dev/null; rm -rf "$dir"' EXIT
go build -o "$dir/nvmeof" ./cmd/nvmeof
export PATH=$dir:$PATH NVMEOF_SOCKET=$dir/target.sock XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config
cat >"$dir/target.yaml" <<YAML
version: 1
listeners: [{id: 1, address: 127.102.0.1}]
subsystems:
  - nqn: nqn.2026-11.org.example:db
    allow-any-host: true
    namespaces:
      - {nsid: 1, file: {path: $dir/db1.img, size: 256MiB}}
      - {nsid: 2, file: {path: $dir/db2.img, size: 256MiB}}
      - {nsid: 3, memory: {size: 128MiB}}
  - nqn: nqn.2026-11.org.example:scratch
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 512MiB}}]
YAML
nvmeof target --config "$dir/target.yaml" >"$dir/log" 2>&1 &
until grep -q 'nvme connect' "$dir/log"; do sleep 0.1; done
load() { # subsystem, namespace, host, options
  nvmeof bench -t rdma -a 127.102.0.1 -n "nqn.2026-11.org.example:$1" --namespace-id "$2" \
    --hostnqn "nqn.2026-11.org.example:$3" --hostid "$(cat /proc/sys/kernel/random/uuid)" --time_based --runtime 60 "${@:4}" >>"$dir/bench.log" 2>&1 &
}
load db 1 web1 --rw randread --bs 4k --iodepth 4 --rate_iops 4000
load db 2 web2 --rw randrw --bs 8k --iodepth 2 --rate_iops 2000
load scratch 1 build --rw randwrite --bs 64k --iodepth 2 --rate_iops 500
tmux -u -S "$dir/tmux" -f /dev/null new-session -d -x 100 -y 12 nvmeof top
sleep 8
tmux -S "$dir/tmux" capture-pane -p -e >"$dir/screen"
aha --black --title top <"$dir/screen" |
  sed 's|<pre>|<pre style="font: 15px/1.25 DejaVu Sans Mono, monospace; padding: 14px; margin: 0">|' >"$dir/top.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=950,260 --screenshot="$dir/top.png" "file://$dir/top.html" >/dev/null 2>&1
cp "$dir/top.png" docs/pictures/top.png
ls -l docs/pictures/top.png
