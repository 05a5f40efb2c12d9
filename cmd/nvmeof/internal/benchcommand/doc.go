// Package benchcommand has the bench command: fio's options, the jobs that they describe, what
// those are compared with, and what of the results goes where. The load itself is
// internal/bench's; how its namespaces are reached is a [Fabric]'s.
package benchcommand
