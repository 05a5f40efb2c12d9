// Package etcd implements a store of package state in an etcd cluster, 3.4 or later.
//
// # What etcd is trusted with
//
// The store relies on transactions that change something, or could, and on watches. It uses neither locks nor leases of
// etcd. It works around four faults of etcd:
//
//   - A linearizable read of an etcd before 3.6.9, such as Debian's 3.4.23, may be stale after a process of the
//     cluster was paused (etcd issue 20418). Get therefore is a transaction that also deletes a missing key: it goes
//     through the log like a change.
//   - A transaction without operations is answered by the member that is asked from its own state, even if it is cut
//     off from the others. A transaction that only compares contains that deletion, too.
//   - The error for a full database may be that of a transaction which was executed. It is ErrUnknown, like all errors
//     except rejections.
//   - Watches have lost events, for example after compactions (etcd issues 17529 and 18089). Events therefore only say
//     that there may be a change, and each watch says so every ten seconds without any event.
//
// # Endpoints
//
// One endpoint is used at a time. Twice a second the store checks that it answers, by a read that needs the majority.
// If it does not answer within a second, the store switches to the next endpoint, with all watches. A cluster takes one
// or two seconds to elect a leader.
//
// A watch transfers the changed values, which are not used: its prefix should not contain large values.
package etcd
