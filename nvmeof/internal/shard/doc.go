// Package shard is the loop that everything on the data path runs in: one
// goroutine at a time owns a completion queue, the queue pairs that complete on
// it, the NVMe queues over them and a queue of each backend, and runs each
// command to completion without a channel, a lock that blocks, an allocation or
// a second goroutine.
//
// # One turn
//
// A turn goes through these steps in this order:
//
//  1. functions that other goroutines queued with [Shard.Do];
//  2. completions, each handed to [Consumer.Complete] of the [Slot] whose index
//     is the upper half of the work request's ID; where many come after a wait,
//     in two parts with steps 6 and 7 between them;
//  3. [Timer] functions that are due;
//  4. [Poller.Poll] of each backend queue;
//  5. waiters of the arenas ([Arena], [Share]), each party in turn, then [Consumer.Retry] of the slots that
//     asked for it;
//  6. [Consumer.Flush] of the slots that collected work requests;
//  7. one flush of the completion queue.
//
// After the last useful turn the loop spins for a while ([Config.Spin], or longer
// where work comes at such intervals or an operation is out, [Shard.Expect], but not where others want the
// processor), then waits in the completion queue, at most
// until the next timer is due.
//
// # Who runs it
//
// The resident goroutine, started by [Shard.Start]. On a dedicated shard, as a
// target has, it never yields the loop, and keeps its OS thread while it is awake, or for
// good where a poller needs that ([Shard.BindThread]). Otherwise a goroutine
// that wants an operation done may drive the loop itself while it waits
// ([Waiter.Await], [Shard.TryHold]), which saves the goroutine switch that
// costs more than the network. Whoever holds the loop is its owner: all methods
// whose comment does not say otherwise are the owner's alone, and callbacks are
// always called by the owner. A caller also takes the loop from a resident asleep in
// the completion queue, and wakes it afterwards. The resident takes the loop back
// when nobody has held it for a millisecond, or at once when an operation was left
// behind.
package shard
