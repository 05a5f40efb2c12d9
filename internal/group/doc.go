// Package group decides, for one gateway of a group, who serves what: which gateways there
// are, which of them owns each ANA group, when one that is silent is fenced, and which
// group moves where.
//
// An [Engine] is a pure value. Events and the time go in; actions and the next deadline
// come out. It reads no clock, draws no random number, and belongs to one goroutine. Times
// are durations since an arbitrary start, by a clock that does not stand still while the
// machine sleeps (CLOCK_BOOTTIME). Package runner connects it to a store and to a target.
//
// # Incarnations
//
// A gateway has a name, which stays, and an incarnation, which is random and ends for good:
// when the process ends, when it finds itself fenced, and when it cannot give back a group
// otherwise. The process goes on as a new incarnation, with new clients of its storage. A
// gateway registers with the addresses of these clients before its first I/O, so that it
// can be fenced by them.
//
// # Ownership
//
// The value of an ANA group in the store names its owner, the owner's incarnation and an
// epoch. It changes only by compare, and the epoch grows with each change:
//
//   - by the owner, which has drained the group before;
//   - by another gateway if there is a fence record of the owner's incarnation, and the
//     taker itself has carried out the fence at the storage (backend fenced), or has waited
//     for the whole term of the lease (backend lease);
//   - by anybody if it has no owner.
//
// So a heartbeat that was carried out proves that its sender still owned what it owned:
// heartbeats compare the registration, which is ended in the same transaction that writes
// the fence record. Who has an incarnation whose addresses are not known is not succeeded
// where the backend is fenced: [AlarmRefused].
//
// # Time
//
// Each gateway judges the silence of others by its own clock, from when it has seen their
// heartbeats change, and only while its own heartbeats are carried out. After an outage of
// the store all others have a full term again. Nothing of the safety of fenced groups rests
// on it. That of lease groups does: the owner counts its term from when it sent the last
// heartbeat that was carried out, less 10 percent, and the taker counts the whole term from
// when it saw that heartbeat, so that clocks may differ by 5 percent in their rate.
//
// # Lost and late replies
//
// A transaction whose outcome is not known is followed by a read. It may be carried out
// after that read: so a group that was offered to another gateway is served again only in a
// new epoch, and an incarnation that has ended itself never goes on.
//
// # A store that goes back
//
// A store that is restored from a copy while gateways run has other owners than these are. A gateway notices that by the
// revision of the store, or of its own heartbeat, stops what is not its own any more, and changes nothing for as long as
// others need to do the same: [AlarmStore]. One that does not reach the store, and whose registration is lost, is not known
// to anybody, and has to be stopped.
package group
