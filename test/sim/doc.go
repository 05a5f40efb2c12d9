// Package sim simulates whole targets and hosts, with everything of them but the sockets
// and the disk: package target, package multipath and softroce on a network in memory,
// under the clock of testing/synctest.
//
// A seed makes a world: one target with one to three ports, or several that share a disk;
// one to three hosts with two workers each; and a network that loses, duplicates, reorders,
// delays and corrupts packets. Then things befall it: targets and hosts are killed, stopped
// and started, directions of the network are cut, the disk is slow, full, fails reads,
// writes and flushes or loses power, ports change their ANA state, controllers are
// disconnected, and hosts preempt each other's registration. At the end all is repaired,
// and once more after a last power failure of everything.
//
// # What is judged
//
//   - A read returns the last acknowledged write of the block or a concurrent one. A model
//     says which read is wrong, and why; then porcupine looks for an order of all operations
//     on the block that explains what each returned (linearizability).
//   - What was acknowledged with Force Unit Access, or before a Flush that succeeded, is
//     there after the disk has lost power. A power failure is an operation of the history,
//     which leaves any value that the block had since it was durable.
//   - Of one target with a volatile cache the first flush after a power failure fails, if its host had writes
//     acknowledged that no flush had made durable; without a power failure none says so.
//   - A host whose registration was preempted, with abort, writes nothing from the moment at
//     which that is acknowledged until it registers again, also when the target restarts.
//     The disk sees that, since values name who wrote them.
//   - No block is torn, nor corrupted, on its way to the disk or back.
//   - When all is repaired every path is live within three minutes and every block is read
//     through every host; when all is closed no goroutine is left.
//   - Where hosts have keys nobody is let in without one, and they themselves are, as above.
//
// What fails may have been carried out in its time; that of a host that is killed at any
// time later. A write whose path is lost is sent again, so that others may see it once more for
// each path that its host lost meanwhile: the model allows that for blocks that several
// workers write, beside another write of the same worker, and over a power failure.
//
// # Replaying
//
// All choices come from the seed, by a generator of its own for each actor, crypto/rand
// included, and goroutines take turns on one processor. What does not come from the seed is
// what the Go runtime chooses: which case of a select that could take several, the order of
// a map, of timers that are due in the same nanosecond, and when it preempts a goroutine on
// a machine that is busy. So three of four seeds tell the same story to the last nanosecond each
// time, and some depart from it at some event. TestReplay counts them. A failure prints the
// whole story as it was, which is what to go by.
//
// # Not simulated
//
// Steps of the wall clock: fake time only passes. Stores on files and devices, whose system
// calls do not wait for fake time. A reservation that takes time to be saved, because the
// target holds a mutex meanwhile, on which fake time stands still. Discovery.
package sim
