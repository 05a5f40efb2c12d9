// Package discovery follows discovery controllers: it reads their logs, follows their referrals, and reports the
// records and their changes.
//
// [Run] does so once, or, with [Config].Persistent, until it is stopped. Then each controller stays connected and
// reports changes itself (the notice Discovery Log Page Change, NVMe base 2.0, 5.2.1); the log of one that cannot is
// read periodically. A controller that cannot be reached is tried again after a pause, which grows. Its records stay,
// since a subsystem need not be gone because its discovery controller is.
//
// An engine without clock, locks or goroutines decides what to do; Run executes its orders and returns the results to
// it. Both run on one goroutine, which also calls the caller's event function.
//
// Referrals are followed up to a maximum depth and number of controllers. A referral to a controller that is already
// followed is not followed again, nor is one that returns the same information (EFLAGS, duplicate returned
// information). A record that several controllers have is one record, and is removed when the last of them removes it.
//
// # Unique names
//
// A discovery subsystem may have a unique NQN besides the well-known one. The unique NQN identifies it, also to a host
// that authenticates it. A persistent connection is therefore made again with the unique NQN (NVMe base 2.0, 3.1.2.3).
// If that fails, the first connection is kept.
//
// # Limits
//
// Referrals to transports other than RDMA, and to addresses that would have to be resolved, are reported and not
// followed. Hosts do not register themselves, and mDNS is not used.
package discovery
