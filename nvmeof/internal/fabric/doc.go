// Package fabric is an NVMe queue over one RDMA queue pair, as the NVMe RDMA
// Transport Specification 1.0 describes it: command capsules one way, response
// capsules the other, data in capsules or by RDMA READ and WRITE of the
// controller. [TargetQueue] is the controller's end, [HostQueue] the host's.
//
// # Owners
//
// A queue belongs to a shard. Its methods are called by the owner of that
// shard's loop, and so are all callbacks, except that New, Memory and Free may
// be called from any goroutine: they map and register memory, which takes long.
// Work requests are collected during a turn and posted at its end.
//
// # Receives
//
// A controller's queue has a receive for each entry, or takes them from
// [SharedReceives] of its shard. A receive is posted again before the response that
// frees the entry is sent.
//
// # End of a queue
//
// A queue ends once: by its owner (Disconnect), by the peer, or by an error,
// whichever is first; Err tells why. The end is carried out in the loop's retry
// step, not in the call that caused it. The queue pair is closed at that
// moment, after which the provider touches no memory of the queue. Every
// command or request that the queue still has is given back exactly once.
//
// # Invalidation
//
// A host command's key is dead before its buffer goes back to the caller only
// where keys are memory windows ([HostConfig.Windows]). Without windows the key
// is that of the whole registered [Memory], which reveals no more than that
// memory to that controller, reading and writing being different keys.
package fabric
