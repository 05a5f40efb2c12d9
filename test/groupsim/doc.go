// Package groupsim simulates groups of gateways. Only the code that decides is real: the engine of package group on the
// simulated store.
//
// A seed makes a world: two to six gateways whose clocks run at rates that differ by up to 5 percent from the true one,
// one to eight ANA groups, hosts that write and read over all gateways and retry, and disks. A group is on a disk that
// fences, or on one that relies on a lease. Writes to the former may hang for a minute and land then. Its fence is
// Ceph's: the monitor knows at once, each OSD when it has the map with the fence, by gossip or from a client that has
// it. No group is served before all OSDs have it, which gateways ensure by visiting them.
//
// Then failures are injected. Gateways are killed, started, paused for up to a minute, drained, stopped and declared
// failed. Groups are moved. The network from gateways to the store, to the disk and to the hosts is cut, also in one
// direction. Requests and replies of the store are lost, late or executed twice. The store and the disk stop for a
// while.
//
// # What is judged
//
//   - Epochs do not overlap at the disk: after a write of an epoch none of an earlier epoch lands.
//   - A write that lands is not older than one that was acknowledged, so that no acknowledged write is lost.
//     A read returns what was acknowledged before it began, or something later.
//   - A group that has to be fenced changes its owner without the owner's consent only after the owner's
//     incarnation is fenced.
//   - A preemption is acknowledged after the commands of the preempted host have ended. From then on none of
//     its writes lands until it has registered again.
//   - The results of reservation commands are linearizable, and so are the epochs in which commands are
//     executed (porcupine).
//   - After the repair, within a minute and a half, every group is served by the owner that the store names,
//     groups are spread evenly, and every write that hosts have begun has ended.
//
// # Replaying
//
// There is one thread and no clock: a seed gives the same story each time. A seed that fails is run again with its
// story printed.
package groupsim
