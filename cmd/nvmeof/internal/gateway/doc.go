// Package gateway makes a target a gateway of a group, whose gateways offer the same subsystems. It
// opens the group's store, runs the engine of package group, and carries out the engine's decisions
// with the target.
package gateway
