// Package record is what is known of the blocks of a namespace, and judges what is read
// from it.
//
// Each block has one writer, which numbers its writes: 1, 2 and so on. A [Table] has for
// each block the number of the last write that was begun, of the last one that certainly
// took place, and of the last one that is durable. It is a file in shared memory, so that
// several processes judge what they read by the same numbers, and what one knew is known
// to the next when it was killed.
//
// What [Fill] makes of a block names its namespace, block and number, and ends with a
// checksum. A read is right if it returns a number from the last write that had certainly
// taken place when it began to the last one that had begun when it ended. What it returned
// has taken place then, for all who read later: of one writer and any number of readers
// that is linearizability.
//
// A write that failed, or whose process was killed, leaves its block between two numbers,
// until a read has seen the later one or another write was acknowledged. Whoever writes the
// block again has to wait until the former can not be executed any more: an old write that
// overwrites a newer one is what this finds.
package record
