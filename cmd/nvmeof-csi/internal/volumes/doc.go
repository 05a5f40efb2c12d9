// Package volumes manages the volumes of a CSI driver as namespaces of nvmeof targets, through their control API. It
// has no state of its own: everything is in the documents of the targets, which each change saves. A driver that is
// killed and started again, possibly on another node, therefore continues with their state.
//
// A volume is a namespace of one subsystem of its target, with a UUID derived from the NQN and the volume's name. Its [ID]
// consists of the target's name and the UUID. All functions are idempotent, after any failure.
package volumes
