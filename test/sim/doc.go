// Package sim simulates whole targets and hosts. They run the real code, except for the sockets and the disk: package
// target, package multipath and softroce run on a network in memory, under the clock of testing/synctest.
//
// A seed makes a world: one target with one to three ports, or several that share a disk; one to three hosts with two
// workers each; and a network that loses, duplicates, reorders, delays and corrupts packets. Then failures are
// injected. Targets and hosts are killed, stopped and started. Directions of the network are cut. The disk is slow,
// full, fails reads, writes and flushes or loses power. Ports change their ANA state, controllers are disconnected, and
// hosts preempt each other's registration. At the end everything is repaired and checked, and once more after a last
// power failure of everything.
//
// # What is judged
//
//   - A read returns the last acknowledged write of the block or a concurrent one. A model says which read
//     is wrong, and why. Then porcupine looks for an order of all operations on the block that explains what
//     each returned (linearizability).
//   - A write acknowledged with Force Unit Access, or before a Flush that succeeded, is still there after
//     the disk has lost power. A power failure is an operation of the history that may leave any value that
//     the block had since it was last durable.
//   - With one target and a volatile cache, the first flush after a power failure fails if its host had
//     acknowledged writes that no flush had made durable. Without a power failure no flush reports lost writes.
//   - A host whose registration was preempted, with abort, writes nothing after the acknowledgement of that
//     until it registers again, also if the target restarts. The disk checks it, because values name
//     their writer.
//   - No block is torn or corrupted on its way to the disk or back.
//   - After the repair every path is live within three minutes and every block can be read through every
//     host. After everything is closed no goroutine is left.
//   - If hosts have keys, no host is admitted without its key, and the hosts themselves are, as above.
//
// An operation that fails may have been executed before it failed; one of a host that is killed may be executed at any
// later time. A write whose path is lost is sent again. So others may see it once more for each path that its host lost
// meanwhile. The model allows that for blocks that several workers write, beside another write of the same worker, and
// over a power failure.
//
// # Replaying
//
// All choices come from the seed, through a random generator for each actor, crypto/rand included, and goroutines take
// turns on one processor. The Go runtime's own choices do not come from the seed: which ready case of a select it
// takes, the order of a map and of timers that are due in the same nanosecond, and when it preempts a goroutine on a
// busy machine. So three of four seeds give the same story to the last nanosecond each time, and some diverge at some
// event. TestReplay counts them. A failure prints the whole story as it happened, which is what to analyze.
//
// # Not simulated
//
// Steps of the wall clock: fake time only advances. Stores on files and devices, whose system calls do not wait for
// fake time. A reservation that takes time to be saved, because the target holds a mutex meanwhile and fake time does
// not advance while a goroutine waits for a mutex. Discovery.
package sim
