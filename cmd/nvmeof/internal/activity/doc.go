// Package activity compares two readings of a target's counters: what the target did per second, and how long that
// took. It makes tables of the result that can be sorted and filtered. It neither reads counters nor prints anything
// itself.
//
// Names that hosts send are escaped in tables, so that a terminal can show them. The counters determine how far
// durations can be broken down: for each namespace there are those of whole commands, and of the part during which its
// store had them; for each shard there is also the time of the data transfers over the fabric.
package activity
