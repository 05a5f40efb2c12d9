// Package volumes keeps the volumes of a CSI driver as namespaces of nvmeof targets, by their
// control API. It has no state of its own: the documents of the targets, which each change
// saves, are all that there is, so that a driver that is killed and started anew, also
// elsewhere, goes on where they are.
//
// A volume is a namespace of one subsystem of its target, with a UUID that follows from the
// volume's name; its [ID] is the target's name and the UUID. Each function can be repeated, after
// whatever has gone wrong, and comes to the same.
package volumes
