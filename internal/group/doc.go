// Package group makes the decisions of one gateway of a group: which gateways exist, which of them owns each ANA group,
// when a silent gateway is fenced, and which group moves where.
//
// An [Engine] is a pure value. Its inputs are events and the time; its outputs are actions and the next deadline. It
// reads no clock, uses no random numbers, and belongs to one goroutine. Times are durations since an arbitrary start,
// by a clock that continues while the machine sleeps (CLOCK_BOOTTIME). Package runner connects an engine to a store and
// to a target.
//
// # Incarnations
//
// A gateway has a name, which is permanent, and an incarnation, which is random and ends permanently: when the process
// ends, when it finds itself fenced, or when it cannot give back a group otherwise. The process then continues as a new
// incarnation, with new storage clients. A gateway registers the addresses of these clients before its first I/O, so
// that it can be fenced by them.
//
// # Ownership
//
// The value of an ANA group in the store contains its owner, the owner's incarnation and an epoch. It changes only by
// compare-and-set, and the epoch increases with each change. It is changed:
//
//   - by the owner, after it has drained the group;
//   - by another gateway if there is a fence record of the owner's incarnation, and this gateway has itself executed
//     the fence at the storage (backend fenced), or has waited for the whole term of the lease (backend lease);
//   - by any gateway if the group has no owner.
//
// So an executed heartbeat proves that its sender still owned its groups: heartbeats compare the registration, and the
// transaction that writes a fence record also ends the registration. If the backend is fenced and the addresses of the
// owner's incarnation are not known, the group is not taken over: [AlarmRefused].
//
// # Time
//
// Each gateway judges the silence of others by its own clock, from the time at which it has seen their heartbeats
// change, and only while its own heartbeats are executed. After an outage of the store all others get a full term
// again. The safety of fenced groups does not depend on time; that of lease groups does. The owner counts its term from
// the time at which it sent the last executed heartbeat, less 10 percent. The new owner counts the whole term from the time
// at which it saw that heartbeat. So the rates of the clocks may differ by 5 percent.
//
// # Lost and late replies
//
// A transaction with an unknown outcome is followed by a read, but may still be executed after that read. So a group
// that was offered to another gateway is served again only in a new epoch, and an incarnation that has ended itself
// never continues.
//
// # A restored store
//
// A store that is restored from a copy while gateways run may contain other owners than the present ones. A gateway
// detects that by the revision of the store or of its own heartbeat. It stops serving what it no longer owns, and
// changes nothing while the others need time to do the same: [AlarmStore]. A gateway that does not reach the store and
// whose registration is lost is unknown to the others; the administrator must stop it.
package group
