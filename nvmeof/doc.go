// Package nvmeof has what hosts and controllers of NVMe over Fabrics share: names, addresses and limits. Its
// subdirectories are the roles, host and target, and what belongs to them: multipath and discovery for hosts, config
// and control for targets, auth for both. Below internal, fabric implements an NVMe queue over RDMA, and shard the
// event loop that it runs in.
package nvmeof
