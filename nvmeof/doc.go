// Package nvmeof is what hosts and controllers of NVMe over Fabrics share: names,
// addresses and limits. Its folders are the roles and their transport: fabric is
// an NVMe queue over RDMA, shard the loop it runs in, target and host the roles,
// auth their authentication.
package nvmeof
