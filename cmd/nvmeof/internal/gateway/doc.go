// Package gateway makes a target one of a group, which serve the same subsystems: it opens the
// group's store, runs the engine that decides who serves what, and carries out for the
// target what that decides.
package gateway
