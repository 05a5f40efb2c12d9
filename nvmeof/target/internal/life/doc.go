// Package life is what a subsystem counts over its life, and what hosts set for good, as a
// value that is written down: a [Record]. It survives restarts of the target, which hosts
// see as power cycles.
package life
