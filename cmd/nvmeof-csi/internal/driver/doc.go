// Package driver is the services of a CSI driver: the controller over package volumes, and the node
// over a [Fabric], which makes disks of volumes, and [Mounts], which puts file systems on them.
package driver
