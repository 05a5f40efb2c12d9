# Each program accepts the keys that the other one generates. Parameters: hostnqn.
for hmac in 0 1 2 3; do
  ours=$(nvmeof gen-dhchap-key --hmac $hmac --nqn "$hostnqn")
  nvme check-dhchap-key --key "$ours"
  length=$((hmac == 0 ? 32 : 16 + 16 * hmac))
  secret=$(head -c $length /dev/urandom | od -An -tx1 | tr -d ' \n')
  args=(--hmac=$hmac --key-length=$length "--secret=$secret" "--nqn=$hostnqn")
  want "key of nvme-cli and of ours" "$(nvmeof gen-dhchap-key "${args[@]}")" "$(nvme gen-dhchap-key "${args[@]}")"
done
