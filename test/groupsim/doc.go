// Package groupsim simulates groups of gateways, with everything of them but what decides: the
// engine of package group on the simulated store.
//
// A seed makes a world: two to six gateways whose clocks run at rates that differ by up to 5
// percent of the true one, one to eight ANA groups, hosts that write and read over all gateways
// and retry, and disks. A group is on a disk that fences, or on one that relies on a lease.
// Writes to the former may hang for a minute and land then. Its fence is Ceph's: the monitor
// knows at once, each OSD when it has the map that says so, by gossip or from a client that has it. No
// group is served before all have it, which gateways see to by visiting them.
//
// Then things befall it: gateways are killed, started, paused for up to a minute, drained, stopped
// and declared failed; groups are moved; the ways from gateways to the store, to the disk and to
// the hosts are cut, in one direction too; requests and replies of the store are lost, late or
// carried out twice; the store and the disk stop for a while.
//
// # What is judged
//
//   - Epochs do not overlap at the disk: after a write of an epoch none of an earlier one lands.
//   - A write that lands is not older than one that was acknowledged, so that no acknowledged
//     write is lost; a read returns what was acknowledged before it began, or something later.
//   - A group that has to be fenced changes its owner without the owner's consent only when its
//     incarnation is fenced.
//   - After a reservation was preempted, which is acknowledged once the commands of the
//     preempted host have ended, none of its writes lands until it has registered again.
//   - What hosts hear of a reservation is linearizable, and so are the epochs in which their
//     commands are carried out (porcupine).
//   - When all is repaired every group is served, by the owner that the store names, within a
//     minute and a half; groups are spread evenly, and every write that hosts have begun has ended.
//
// # Replaying
//
// There is one thread and no clock: a seed tells the same story each time. One that fails is run
// again with its story on.
package groupsim
