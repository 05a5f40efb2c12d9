// Package shard implements the loop in which everything on the data path runs. At any time one goroutine owns a
// completion queue, the queue pairs that complete on it, the NVMe queues over them and a queue of each backend. It runs
// each command to completion without a channel, a blocking lock, an allocation or a second goroutine.
//
// # One turn
//
// A turn consists of these steps in this order:
//
//  1. run the functions that other goroutines queued with [Shard.Do];
//  2. pass each completion to [Consumer.Complete] of the [Slot] whose index is the upper half of the work request's ID;
//     if many arrive after an idle time, in two parts with steps 6 and 7 between them;
//  3. call the functions of expired [Timer]s;
//  4. call [Poller.Poll] of each backend queue;
//  5. serve the waiters of the arenas ([Arena], [Share]), each party in turn, then call [Consumer.Retry] of the slots
//     that asked for it;
//  6. call [Consumer.Flush] of the slots that collected work requests;
//  7. flush the completion queue once.
//
// After the last turn that found work, the loop spins for [Config.Spin]. It spins for longer where work arrives at such
// intervals or where an operation is outstanding ([Shard.Expect]), but not where other threads want the processor. Then
// it waits in the completion queue, at most until the next timer expires.
//
// # Who runs it
//
// [Shard.Start] starts the resident goroutine, which runs the loop. On a dedicated shard, such as a target's, it never
// hands the loop to another goroutine. It keeps its OS thread while it is awake, or permanently where a poller needs
// that ([Shard.BindThread]).
//
// On other shards a goroutine that waits for an operation may drive the loop itself ([Waiter.Await], [Shard.TryHold]).
// That saves a goroutine switch, which costs more than the network. It can also take the loop from a resident that
// sleeps in the completion queue, and wakes it afterwards. The resident takes the loop back when no goroutine has held
// it for a millisecond, or at once when operations are still outstanding.
//
// The goroutine that holds the loop is its owner. Only the owner may call a method, unless its comment says otherwise,
// and callbacks are always called by the owner.
package shard
