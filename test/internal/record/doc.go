// Package record records the writes to the blocks of a namespace, and judges what reads return.
//
// Each block has one writer, which numbers its writes 1, 2 and so on. A [Table] has for each block the number of the
// last write that was begun, of the last one that was certainly executed, and of the last one that is durable. It is a
// file in shared memory, so that several processes judge their reads by the same numbers, and a process that replaces a
// killed one knows what that knew.
//
// [Fill] makes the content of a block from its namespace, index and number, with a checksum at the end. Let a be the
// last write that was certainly executed when a read began, and b the last write begun when the read ended. The read is
// right if it returns a number from a to b. The returned write is then certainly executed, for all later reads. With
// one writer and any number of readers that is linearizability.
//
// A write that failed, or whose process was killed, leaves the content of its block uncertain, until a read has seen
// the new content or another write was acknowledged. The writer must not write the block again before the former write
// can no longer be executed: an old write that overwrites a newer one is what this package detects.
package record
