// Package life implements a [Record] of the counters of a subsystem's lifetime, and of the persistent settings of
// hosts. It is saved and survives restarts of the target, which are power cycles to hosts.
package life
