// Package nvmeof is what hosts and controllers of NVMe over Fabrics share: names,
// addresses and limits. Its folders are the roles, host and target, and what goes with
// them: multipath and discovery for hosts, config and control for targets, auth for both.
// Below internal, fabric is an NVMe queue over RDMA and shard the loop that it runs in.
package nvmeof
