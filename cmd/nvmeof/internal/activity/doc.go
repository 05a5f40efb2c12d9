// Package activity compares two readings of a target's counters: what it did in a second, and how
// long that took. It makes tables of that, which can be sorted and filtered, for people and
// programs. It reads and prints nothing itself.
//
// Names that hosts send are in a table as a terminal can show them. The counters decide how
// far times are split: those of a namespace are of whole commands, and of the part in which its
// store had them; the time that data took over the fabric is known for each shard.
package activity
