// Package life has the counters of a subsystem's lifetime, and the settings of hosts that
// persist, as a value that is saved: a [Record]. It survives restarts of the target,
// which are power cycles to hosts.
package life
