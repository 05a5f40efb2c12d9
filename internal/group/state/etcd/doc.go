// Package etcd is a store of package state in an etcd cluster, 3.4 or newer.
//
// # What etcd is trusted with
//
// Transactions that change something, or could, and watches; neither its locks nor its leases. Of etcd's faults
// four are met here:
//
//   - A linearizable read of an etcd before 3.6.9, which Debian's 3.4.23 is, may be stale when a
//     process of the cluster was paused (etcd issue 20418). Get is a transaction that also
//     deletes a key which does not exist: it goes through the log as each change does.
//   - A transaction that has no operation is answered by the member that is asked from what it has, whether or not
//     it hears the others. One that only compares has that deletion, too.
//   - The error that the database is full may be that of a transaction which was carried out.
//     It is ErrUnknown, as are all errors but refusals.
//   - Watches have lost events, after compactions for instance (etcd issues 17529 and 18089).
//     Events only say that there may be a change, and each watch says so every ten seconds
//     without any.
//
// # Endpoints
//
// One endpoint is used at a time. Whether it answers is asked twice a second, by a read for
// which it needs the majority; one that does not answer within a second is left for the next,
// with all watches. A cluster that has to elect a leader takes one or two seconds.
//
// A watch transfers the values that change, which nobody looks at: it should have a prefix
// without large ones.
package etcd
