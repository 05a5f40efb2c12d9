// Package nvmeof has what hosts and controllers of NVMe over Fabrics share: names, addresses and limits.
//
// The packages below it implement the roles, host and target, and what belongs to them: multipath and discovery for
// hosts, config and control for targets, auth for both. In internal, package fabric implements an NVMe queue over
// RDMA, and package shard the loop that runs it.
package nvmeof
