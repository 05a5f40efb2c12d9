# Handles the host's own reservation of namespace 1, over any path that serves it. Parameters: nqn, action (acquire,
# held, release).
dev=$(block_device "$nqn" 1)
case $action in
acquire)
  nvme resv-register "$dev" -n 1 --nrkey=0xa1 --rrega=0
  nvme resv-acquire "$dev" -n 1 --crkey=0xa1 --rtype=1 --racqa=0 # write exclusive
  ;;
held)
  nvme resv-report "$dev" -n 1 --eds -o json >report.json
  want rtype "$(jq .rtype report.json)" 1
  want regctl "$(jq .regctl report.json)" 1
  ;;
release) nvme resv-release "$dev" -n 1 --crkey=0xa1 --rrela=1 ;; # clears all
esac
