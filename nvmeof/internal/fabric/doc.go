// Package fabric implements an NVMe queue over one RDMA queue pair, as the NVMe RDMA Transport Specification 1.0
// describes it: command capsules in one direction, response capsules in the other, and data in capsules or by RDMA READ
// and WRITE of the controller. [TargetQueue] is the controller's end, [HostQueue] the host's.
//
// # Owners
//
// A queue belongs to a shard. The owner of that shard's loop calls its methods, and callbacks are called in the loop.
// The exceptions are New, Memory and Free: they map and register memory, which takes long, so any goroutine may call
// them. Work requests are collected during a turn and posted at its end.
//
// # Receives
//
// A controller's queue has a receive for each entry, or takes receives from the [SharedReceives] of its shard. A
// receive is posted again before the response that frees its entry is sent.
//
// # End of a queue
//
// A queue ends once: by its owner (Disconnect), by the peer, or by an error, whichever is first; Err returns the
// reason. The queue ends in the loop's retry step, not in the call that caused the end. At that moment the queue pair
// is closed, after which the provider touches no memory of the queue. Every outstanding command or request is returned
// exactly once.
//
// # Invalidation
//
// With memory windows ([HostConfig.Windows]), a host command's key is invalid before its buffer goes back to the
// caller. Without windows the key is that of the whole registered [Memory]. It gives the controller access to that
// memory only; reading and writing use different keys.
package fabric
