// Package discovery follows discovery controllers: it reads their logs, goes where
// their referrals lead, and tells what records there are and when they change.
//
// [Run] does so once, or, with [Config].Persistent, until it is stopped: then each
// controller stays connected and reports changes itself (a notice of the type
// Discovery Log Page Change, NVMe base 2.0, 5.2.1). One that cannot is asked again from
// time to time. A controller that is not reached is tried again after a pause that
// grows; its records stay, since a subsystem is not gone because nobody was there to
// list it.
//
// What to do when is decided by an engine without clock, lock or goroutine; Run
// carries its orders out and feeds results back. Both are of one goroutine, and so is
// the caller's function that gets events.
//
// Referrals are followed to a bounded depth and number of controllers. One that leads
// back to where somebody has been is not followed twice, nor one whose target returns
// the same information (EFLAGS, duplicate returned information). A record that
// several controllers have is one record, and is removed when the last one drops it.
//
// # Unique names
//
// A discovery subsystem may have a name of its own besides the one that all have. It
// is what a host authenticates to, and what tells two discovery subsystems apart, so
// a connection that stays is made again by that name (NVMe base 2.0, 3.1.2.3). If
// that fails the first one stays.
//
// # Limits
//
// Referrals to other transports than RDMA, and to names that would have to be looked
// up, are reported and not followed. Hosts do not register themselves, and nothing is
// found by mDNS.
package discovery
